/* SPDX-License-Identifier: GPL-2.0 */
/* The errors that <bpf/usdt.bpf.h> names: the system's own header lies by architecture, where a
 * compiler for BPF does not look. */
#ifndef TRACER_LINUX_ERRNO_H
#define TRACER_LINUX_ERRNO_H

#define ENOENT 2
#define ESRCH 3
#define EINVAL 22

#endif
