/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The path of an open file, from its name up to the root, over mounts.
 *
 * As d_path() goes (prepend_path, fs/d_path.c), but without its locks: a file that is renamed at
 * this very moment may have a path of both worlds. The root is that of the mount namespace. Where
 * the path is as far as its bytes or its parts go, it begins with "..." in place of the rest.
 */
#ifndef TRACER_PATH_H
#define TRACER_PATH_H

/* A member of a kernel structure at an address; 0 where it cannot be read. */
#define kernel_member(level, type, address, member)                                                \
	({                                                                                         \
		__u64 from_ = (address) + bpf_core_field_offset(((type *)0)->member);              \
		(level)->value = 0;                                                                \
		bpf_probe_read_kernel(&(level)->value, bpf_core_field_size(((type *)0)->member),   \
				      (void *)from_);                                              \
		*(volatile __u64 *)&(level)->value;                                                \
	})

/* Puts a name and the '/' before it in front of a path that begins at `at`; 0 where it has no room.
 */
static __noinline int prepend(struct tracer_level *level, __u32 at)
{
	__u64 dentry = level->dentry;
	__u64 length = kernel_member(level, struct dentry, dentry, d_name.len);
	__u64 name = kernel_member(level, struct dentry, dentry, d_name.name);

	length &= 255;
	if (length + 4 > at)
		return 0;
	at = (at - length) & (TRACER_PATH - 1);
	if (bpf_probe_read_kernel(level->path + at, length, (void *)name))
		return 0;
	at = (at - 1) & (TRACER_PATH - 1);
	level->path[at] = '/';
	return at;
}

/* Writes the path that `dentry` and `mnt` of the level tell to the end of `path`; gives where it
 * begins. */
static __noinline int walk(struct tracer_level *level)
{
	__u32 at = TRACER_PATH - 1, before;
	bool whole = false;

	level->path[TRACER_PATH - 1] = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TRACER_PATH_PARTS; i++) {
		__u64 dentry = level->dentry, mnt = level->mnt;
		__u64 parent = kernel_member(level, struct dentry, dentry, d_parent);
		__u64 root = mnt ? kernel_member(level, struct vfsmount, mnt, mnt_root) : 0;

		if (!parent)
			break; /* cannot be read */
		if (dentry == root || dentry == parent) {
			__u64 mount = mnt - bpf_core_field_offset(((struct mount *)0)->mnt);
			__u64 above;

			above = mnt ? kernel_member(level, struct mount, mount, mnt_parent) : 0;
			if (!above || above == mount) {
				whole = true;
				break;
			}
			level->dentry = kernel_member(level, struct mount, mount, mnt_mountpoint);
			level->mnt = above + bpf_core_field_offset(((struct mount *)0)->mnt);
			continue;
		}
		before = prepend(level, at);
		if (!before)
			break;
		at = before;
		level->dentry = parent;
	}
	if (whole && at < TRACER_PATH - 1)
		return at;
	if (whole) {
		at = TRACER_PATH - 2;
		level->path[at] = '/';
		return at;
	}
	at = (at - 3) & (TRACER_PATH - 1);
	level->path[at] = '.';
	level->path[(at + 1) & (TRACER_PATH - 1)] = '.';
	level->path[(at + 2) & (TRACER_PATH - 1)] = '.';
	return at;
}

/* The path at an address, to where `to` points; how many bytes it has, or a negative errno. */
static __noinline int read_path(struct tracer_level *level, void *to, __u64 from, bool dentry)
{
	__u32 at;

	level->dentry = dentry ? from : kernel_member(level, struct path, from, dentry);
	level->mnt = dentry ? 0 : kernel_member(level, struct path, from, mnt);
	if (!level->dentry)
		return -14; /* EFAULT */
	at = walk(level);
	return bpf_probe_read_kernel_str(to, TRACER_PATH, level->path + (at & (TRACER_PATH - 1)));
}

#endif
