//! The least BPF that fills a ring: a program of a dozen instructions that outputs what it is told, run by
//! BPF_PROG_TEST_RUN on a chosen CPU. No libbpf, no compiler.
// JUSTIFICATION: the rings are tested without libbpf, so the few bpf(2) calls that fill them are made here.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use tracer::ring::Array;

const MAP_CREATE: i32 = 0;
const MAP_UPDATE_ELEM: i32 = 2;
const MAP_DELETE_ELEM: i32 = 3;
const PROG_LOAD: i32 = 5;
const PROG_TEST_RUN: i32 = 10;
const ARRAY: u32 = 2;
const PERF_EVENT_ARRAY: u32 = 4;
const RAW_TRACEPOINT: u32 = 17;
/// The most bytes that the program outputs.
pub const MOST: usize = 1 << 17;

/// `union bpf_attr`, by 32-bit words.
fn bpf(command: i32, words: &mut [u32; 32]) -> io::Result<i32> {
    // SAFETY: the attributes are 128 bytes; pointers in them are made by the callers below, from live memory.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, words.as_mut_ptr(), 128) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Any descriptor as an array, to be refused.
pub fn no_array(fd: BorrowedFd<'_>) -> Array<'_> {
    // SAFETY: no program outputs into what is no array.
    unsafe { Array::bounded(fd) }
}

/// A pointer as two words (tests run on little-endian machines).
fn pointer<T>(to: *const T) -> [u32; 2] {
    let address = to as usize as u64;
    [address as u32, (address >> 32) as u32]
}

fn words(parts: &[&[u32]]) -> [u32; 32] {
    let mut words = [0; 32];
    parts.concat().iter().zip(&mut words).for_each(|(from, to)| *to = *from);
    words
}

fn make(command: i32, mut words: [u32; 32]) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that the kernel just made for us.
    bpf(command, &mut words).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The perf event array, and the program that outputs into it.
pub struct Output {
    events: OwnedFd,
    scratch: OwnedFd,
    program: OwnedFd,
}

impl Output {
    /// `slots` in the array. Fails where BPF is refused.
    pub fn new(slots: u32) -> io::Result<Output> {
        let events = make(MAP_CREATE, words(&[&[PERF_EVENT_ARRAY, 4, 4, slots]]))?;
        let scratch = make(MAP_CREATE, words(&[&[ARRAY, 4, MOST as u32, 1]]))?;
        let insn = |code: u8, dst: u8, src: u8, offset: i16, imm: i32| {
            u64::from(code)
                | u64::from(src << 4 | dst) << 8
                | u64::from(offset as u16) << 16
                | u64::from(imm as u32) << 32
        };
        let code = [
            insn(0xbf, 6, 1, 0, 0),                   // r6 = ctx
            insn(0x62, 10, 0, -4, 0),                 // *(u32 *)(r10 - 4) = 0
            insn(0xbf, 2, 10, 0, 0),                  // r2 = r10 - 4
            insn(0x07, 2, 0, 0, -4),                  //
            insn(0x18, 1, 1, 0, scratch.as_raw_fd()), // r1 = scratch
            insn(0, 0, 0, 0, 0),                      //
            insn(0x85, 0, 0, 0, 1),                   // r0 = bpf_map_lookup_elem
            insn(0x55, 0, 0, 1, 0),                   // if r0 == 0
            insn(0x95, 0, 0, 0, 0),                   //     return
            insn(0xbf, 4, 0, 0, 0),                   // r4 = data
            insn(0x79, 5, 6, 0, 0),                   // r5 = ctx[0], the length
            insn(0xb7, 0, 0, 0, -1),                  // if r5 > MOST
            insn(0xb5, 5, 0, 1, MOST as i32),         //
            insn(0x95, 0, 0, 0, 0),                   //     return -1
            insn(0xbf, 1, 6, 0, 0),                   // r1 = ctx
            insn(0x18, 2, 1, 0, events.as_raw_fd()),  // r2 = events
            insn(0, 0, 0, 0, 0),                      //
            insn(0xb4, 3, 0, 0, -1),                  // w3 = BPF_F_CURRENT_CPU
            insn(0x85, 0, 0, 0, 25),                  // r0 = bpf_perf_event_output
            insn(0x95, 0, 0, 0, 0),                   // return r0
        ];
        let head = [RAW_TRACEPOINT, code.len() as u32];
        let attr = words(&[&head, &pointer(code.as_ptr()), &pointer(c"GPL".as_ptr())]);
        let program = make(PROG_LOAD, attr)?;
        Ok(Output { events, scratch, program })
    }

    /// The perf event array.
    pub fn events(&self) -> Array<'_> {
        // SAFETY: the program outputs when a test runs it; no test holds a record while it outputs more than the
        // 65,516 bytes that a ring takes.
        unsafe { Array::bounded(self.events.as_fd()) }
    }

    /// Outputs `raw` on `cpu`; what the helper returned, 0 or a negative error number.
    pub fn run(&self, cpu: u32, raw: &[u8]) -> i32 {
        let key = 0_u32;
        let mut value = raw.to_vec();
        value.resize(MOST, 0);
        let fd = [self.scratch.as_raw_fd() as u32, 0];
        let mut attr = words(&[&fd, &pointer(&key), &pointer(value.as_ptr())]);
        bpf(MAP_UPDATE_ELEM, &mut attr).unwrap();
        let context = [raw.len() as u64];
        let mut attr =
            words(&[&[self.program.as_raw_fd() as u32], &[0; 9], &[8, 0], &pointer(context.as_ptr())]);
        (attr[16], attr[17]) = (1, cpu); // BPF_F_TEST_RUN_ON_CPU
        bpf(PROG_TEST_RUN, &mut attr).unwrap();
        attr[1] as i32
    }

    /// Empties a slot, as a third party would.
    pub fn clear(&self, cpu: u32) -> io::Result<()> {
        let fd = [self.events.as_raw_fd() as u32, 0];
        bpf(MAP_DELETE_ELEM, &mut words(&[&fd, &pointer(&cpu)])).map(drop)
    }
}
