// Which addresses are of the public internet. What a stranger's redirect or name points to must not
// be a router, a neighbour or this machine. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

struct sockaddr;

namespace kvasir::pull {

// False for private, loopback, link-local, shared, documentation, multicast and reserved ranges.
bool is_public_ipv4(uint32_t address);  // host order
// The same, also through addresses that carry an IPv4 address (mapped, NAT64, 6to4, Teredo).
bool is_public_ipv6(const std::array<uint8_t, 16>& address);
bool is_public(const sockaddr* address);  // false for families that are neither
// Nothing if `host` is a name; an IPv6 address may be in brackets.
std::optional<bool> is_public_literal(std::string_view host);

}  // namespace kvasir::pull
