//! Tests that need no privilege, one file a subject; those that want more say so when they skip.

mod bpf; // the least BPF that fills a ring, without libbpf
#[cfg(feature = "probe")]
mod btf_types; // types of any bytes, beside what libbpf makes of them
mod event_decode;
mod event_order; // raw bytes by their schema, wrapped anywhere or too short
mod foreign_event; // what foreign programs emit: bitfields, arrays, and what is not known
#[cfg(feature = "perf-data")]
mod perf_data_gotchas; // what breaks perf, each by a test of its own
#[cfg(feature = "perf-data")]
mod perf_data_read; // recordings read, whole and broken
#[cfg(feature = "perf-data")]
mod perf_data_write; // recordings that the writer made, judged by perf
#[cfg(feature = "perf-data")]
mod perf_fixture; // a recording made by hand, and perf to judge it
mod record_sample; // samples by sample_type, LOST, the trailer
mod ring_backward; // rings in overwrite mode, by their bytes and real (needs BPF)
mod ring_bpf; // real rings filled by BPF_PROG_TEST_RUN (needs BPF)
mod ring_copy; // rings read by copy
mod ring_corrupt; // garbage headers, impossible heads, oversized records
mod ring_cost; // what a record costs (a measurement: run it in release)
mod ring_cpus; // 256 CPUs, simulated: sweeps, turns, memory
mod ring_limits; // sizes, CPU lists, wake rules: what is refused, with the arithmetic
mod ring_live; // real rings: sizes, limits, lifetimes (needs perf_event_open)
mod ring_lost; // LOST's place, losses that no LOST record tells
mod ring_naive; // the reader against a byte-by-byte one, on any sequence of records
mod ring_prompt;
mod ring_runs; // the wake rule swapped under programs that output (needs BPF)
mod ring_set; // budgets, fairness, handlers that stop or panic, commits
mod ring_sideband; // what becomes of tasks (needs perf_event_open)
mod ring_threads; // a producer on a thread of its own
mod ring_wrap; // records round the end of the data, padding, the largest that fit
#[cfg(feature = "probe")]
mod session_cpus; // 256 CPUs, simulated as far as an output
#[cfg(feature = "probe")]
mod session_shards; // several threads, one sink
#[cfg(feature = "channel")]
mod sink_channel; // batches to other threads: every rule, receivers that are slow, stuck or gone
mod sink_escape; // strings of any bytes, made fit for a terminal and for JSON, and had back
mod sink_fixture; // events and a session's worth of them to write
mod sink_gaps; // holes that waited for room, at their place, in order and summed right
mod sink_json; // NDJSON against golden lines
mod sink_on_full; // outputs that block, and that keep a sample
mod sink_outlet; // bytes to pipes, terminals, sockets and files that are slow, stuck, full or gone
#[cfg(feature = "perf-data")]
mod sink_perf_data; // perf.data as a sink, read back
mod sink_raw; // the hexadecimal and raw forms, and the reader of the latter
mod sink_stacks; // stacks, names of values, folded stacks and their accounts
mod sink_terminal; // one line a write on a terminal
mod sink_text; // the text form, column by column
mod support; // a seeded generator and a way to collect
