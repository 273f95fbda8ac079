/* SPDX-License-Identifier: GPL-2.0 */
/* Counting in a program's accounts. */
#ifndef TRACER_ACCOUNT_H
#define TRACER_ACCOUNT_H

/* Programs that interrupt each other on a CPU share its accounts, so they are added to atomically;
 * the result is not used, so that 5.10 takes it. */
#define count(account) ((void)__sync_fetch_and_add(&(account), 1))

/* Counts what bpf_perf_event_output said, by errno. */
static __always_inline void account_output(struct tracer_accounts *mine, long err)
{
	if (!err)
		count(mine->emitted);
	else if (err == -28)
		count(mine->enospc);
	else if (err == -2)
		count(mine->enoent);
	else if (err == -7)
		count(mine->e2big);
	else if (err == -95)
		count(mine->eopnotsupp);
	else if (err == -16)
		count(mine->ebusy);
	else
		count(mine->other);
}

#endif
