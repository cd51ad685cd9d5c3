#include "pull/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

namespace kvasir::pull {
namespace {

struct Ipv4Block {
  uint32_t first;
  int prefix_bits;
};

// IANA's special-purpose registry, and multicast and class E.
constexpr Ipv4Block kNotPublic[] = {
    {0x00000000, 8},   // this network
    {0x0a000000, 8},   // private
    {0x64400000, 10},  // shared, of providers
    {0x7f000000, 8},   // loopback
    {0xa9fe0000, 16},  // link-local; clouds keep their secrets there
    {0xac100000, 12},  // private
    {0xc0000000, 24},  // protocol assignments
    {0xc0000200, 24},  // documentation
    {0xc0586300, 24},  // 6to4 relays
    {0xc0a80000, 16},  // private
    {0xc6120000, 15},  // benchmarks
    {0xc6336400, 24},  // documentation
    {0xcb007100, 24},  // documentation
    {0xe0000000, 4},   // multicast
    {0xf0000000, 4},   // reserved, broadcast
};

uint32_t ipv4_at(const std::array<uint8_t, 16>& bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         bytes[at + 3];
}

bool begins(const std::array<uint8_t, 16>& bytes, std::initializer_list<uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

}  // namespace

bool is_public_ipv4(uint32_t address) {
  for (const Ipv4Block& block : kNotPublic)
    if ((address ^ block.first) >> (32 - block.prefix_bits) == 0) return false;
  return true;
}

bool is_public_ipv6(const std::array<uint8_t, 16>& address) {
  if (begins(address, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}))  // mapped IPv4
    return is_public_ipv4(ipv4_at(address, 12));
  if (begins(address, {0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}))  // NAT64
    return is_public_ipv4(ipv4_at(address, 12));
  if (begins(address, {0x20, 0x02})) return is_public_ipv4(ipv4_at(address, 2));  // 6to4
  if (begins(address, {0x20, 0x01, 0x0d, 0xb8})) return false;                    // documentation
  if (begins(address, {0x20, 0x01}) && address[2] < 2) return false;  // assignments, Teredo
  return (address[0] & 0xe0) == 0x20;  // 2000::/3 is all that is routed
}

bool is_public(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof ipv4);
    return is_public_ipv4(ntohl(ipv4.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof ipv6);
    std::array<uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
    return is_public_ipv6(bytes);
  }
  return false;
}

std::optional<bool> is_public_literal(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const std::string text(host.substr(0, host.find('%')));  // without a zone
  in_addr ipv4;
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return is_public_ipv4(ntohl(ipv4.s_addr));
  std::array<uint8_t, 16> ipv6;
  if (::inet_pton(AF_INET6, text.c_str(), ipv6.data()) == 1) return is_public_ipv6(ipv6);
  return std::nullopt;
}

}  // namespace kvasir::pull
