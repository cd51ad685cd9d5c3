# To be sourced: runs commands in a memory cgroup of their own, version 1 or 2, where the system allows it.
# Whoever sources it calls `leave_cgroup` at the end.

cgroup=

# Sets up nothing yet: false where it cannot be done.
find_cgroup() {
  if [ -d /sys/fs/cgroup/memory ]; then
    cgroup=/sys/fs/cgroup/memory/kvasir-$$ cgroup_limit=memory.limit_in_bytes
  else
    cgroup=/sys/fs/cgroup/kvasir-$$ cgroup_limit=memory.max
  fi
  mkdir "$cgroup" 2>/dev/null && [ -w "$cgroup/$cgroup_limit" ] && [ -w /proc/sys/vm/drop_caches ] && return
  leave_cgroup
  return 1
}

leave_cgroup() { rmdir "$cgroup" 2>/dev/null || true; }

drop_page_cache() {
  sync
  echo 3 >/proc/sys/vm/drop_caches
}

# limited BYTES COMMAND...: in a fresh cgroup, page cache included, with nothing of the disk in memory.
limited() {
  rmdir "$cgroup"
  mkdir "$cgroup"
  echo "$1" >"$cgroup/$cgroup_limit"
  shift
  drop_page_cache
  # shellcheck disable=SC2016
  exec_in_cgroup='echo $$ >"$0/cgroup.procs" && exec "$@"'
  sh -c "$exec_in_cgroup" "$cgroup" "$@"
}
