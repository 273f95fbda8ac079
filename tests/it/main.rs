//! Tests that need no privilege, one file a subject; those that want more say so when they skip.

mod record_sample; // samples by sample_type, LOST, the trailer
mod ring_corrupt; // garbage headers, impossible heads, oversized records
mod ring_cost; // what a record costs (a measurement: run it in release)
mod ring_limits; // sizes, CPU lists, wake rules: what is refused, with the arithmetic
mod ring_live; // real rings: sizes, limits, lifetimes (needs perf_event_open)
mod ring_lost; // LOST's place, losses that no LOST record tells
mod ring_naive; // the reader against a byte-by-byte one, on any sequence of records
mod ring_set; // budgets, fairness, handlers that stop or panic, commits
mod ring_threads; // a producer on a thread of its own
mod ring_wrap; // records round the end of the data, padding, the largest that fit
mod support; // a seeded generator and a way to collect
