//! The perf event arrays that our own programs alone emit into.
#![allow(unsafe_code)]
// JUSTIFICATION: the promise that rings ask for (`ring::Array::bounded`) is one about BPF programs, and this is
// where those and rings meet.

use crate::{
    probe::{Probes, bench::Bench},
    ring::Array,
};

/// The array of a session's probes.
pub fn of_probes(probes: &Probes) -> Array<'_> {
    // SAFETY: every program of `bpf/tracer.bpf.c` emits `sizeof(struct tracer_event)` bytes at most or an end
    // marker of four, and the array is made with them (`Probes::open`); nobody else knows of it.
    unsafe { Array::bounded(probes.array()) }
}

/// The array of the benchmark's programs.
pub fn of_bench(bench: &Bench) -> Array<'_> {
    // SAFETY: the programs of `bpf/bench.bpf.c` emit sixteen bytes, or what `Bench::output` is asked for, which
    // refuses more than 65,516; the array is made with them.
    unsafe { Array::bounded(bench.array()) }
}
