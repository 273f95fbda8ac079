//! What the tests trace: this program again, doing one known thing.
//!
//! JUSTIFICATION: a uprobe needs a function that has a name of its own, and a 32-bit call and a USDT probe are
//! instructions that no library offers; all are unsafe to write.
#![allow(unsafe_code)]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid, write};
use std::fs::{File, OpenOptions};
use std::process::ExitCode;

/// The first argument that makes this program one.
const NAME: &str = "__program";
/// The function that uprobes are put on.
pub const TARGET: &str = "tracer_live_target";

/// The target; what it returns tells its arguments.
// SAFETY: nothing else in this program or its libraries has this name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tracer_live_target(first: u64, second: u64) -> u64 {
    std::hint::black_box(2 * first + second)
}

/// A function that calls itself: with n, n deep.
pub const RECURSIVE: &str = "tracer_live_recursive";

/// What it returns is its argument and all below it summed.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tracer_live_recursive(n: u64) -> u64 {
    match std::hint::black_box(n) {
        0 => 0,
        n => n + std::hint::black_box(tracer_live_recursive(n - 1)),
    }
}

/// The arguments that make this program do `what`.
pub fn args<'a>(what: &[&'a str]) -> Vec<&'a str> {
    [NAME].iter().chain(what).copied().collect()
}

/// Does what the arguments say, if this process is one of these.
pub fn main() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().expect("a number");
    match words[..] {
        [NAME, "calls", n] => calls(number(n)),
        [NAME, "recursion", depth, n] => (0..number(n)).for_each(|_| {
            std::hint::black_box(tracer_live_recursive(number(depth)));
        }),
        [NAME, "threads", threads, n] => threads_on_one_cpu(number(threads), number(n)),
        [NAME, "wait", file, threads, n] => threads_that_wait(file, number(threads), number(n)),
        [NAME, "greets", n] => greets(number(n)),
        [NAME, "sockets"] => sockets(),
        [NAME, "compat", n, m] => compat(number(n), number(m)),
        [NAME, ..] => panic!("{words:?} is nothing to do"),
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

fn nowhere() -> File {
    OpenOptions::new().write(true).open("/dev/null").expect("/dev/null")
}

/// Calls the target with 1 and 7, 2 and 7, … n and 7, and writes 1, 2, … n bytes.
fn calls(n: u64) {
    let (file, bytes) = (nowhere(), vec![0; n as usize]);
    for i in 1..=n {
        std::hint::black_box(tracer_live_target(i, 7));
        write(&file, &bytes[..i as usize]).expect("a write to /dev/null");
    }
}

/// Threads on CPU 0, each of which calls the target with its own id and its turn, and writes as many bytes as its id.
fn threads_on_one_cpu(threads: u64, n: u64) {
    let mut cpus = CpuSet::new();
    cpus.set(0).expect("CPU 0");
    sched_setaffinity(Pid::from_raw(0), &cpus).expect("pinning to CPU 0");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (file, me) = (nowhere(), gettid().as_raw());
                let bytes = vec![0; me as usize];
                for i in 0..n {
                    std::hint::black_box(tracer_live_target(me as u64, i));
                    write(&file, &bytes).expect("a write to /dev/null");
                }
            });
        }
    });
}

/// Threads that say their ids, wait for a file, and then write.
fn threads_that_wait(file: &str, threads: u64, n: u64) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                println!("{}", gettid());
                while !std::path::Path::new(file).exists() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let nowhere = nowhere();
                for _ in 0..n {
                    write(&nowhere, b"x").expect("a write to /dev/null");
                }
            });
        }
    });
}

/// Passes its USDT probe `tracer_live:greeting` with -1, -2, … -n, and so on.
fn greets(n: u64) {
    // Of memory that was just written: a page of the file that nobody has touched cannot be read from a probe.
    let text = std::ffi::CString::from(c"hello, probe");
    for i in 1..=n {
        greeting(-(i as i32), i << 40, &text, &[7, i as u32], (i % 2) as u8);
    }
}

/// A USDT probe as <sys/sdt.h> makes one: an instruction that does nothing, and a note that says where it is and
/// where its arguments are: in registers, in memory, and a constant.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn greeting(signed: i32, wide: u64, text: &std::ffi::CStr, memory: &[u32; 2], byte: u8) {
    // SAFETY: one instruction that does nothing; what is in the sections is read by nobody in this program.
    unsafe {
        std::arch::asm!(
            "990: nop",
            ".pushsection .note.stapsdt,\"\",\"note\"",
            ".balign 4",
            ".4byte 992f-991f, 994f-993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b, _.stapsdt.base, 0",
            ".asciz \"tracer_live\"",
            ".asciz \"greeting\"",
            ".asciz \"-4@%edi 8@%rsi 8@%rdx 4@4(%rcx) 1@%r8b -4@$-9\"",
            "994: .balign 4",
            ".popsection",
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            in("edi") signed, in("rsi") wide, in("rdx") text.as_ptr(), in("rcx") memory.as_ptr(),
            in("r8b") byte, options(readonly, nostack, preserves_flags, att_syntax),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn greeting(_: i32, _: u64, _: &std::ffi::CStr, _: &[u32; 2], _: u8) {
    panic!("the probe is for x86-64 alone");
}

/// What [`sockets`] connects to, in order; nobody listens there.
pub const CONNECTS: [&str; 3] = ["127.0.0.1:9", "[::1]:9", "unix:/none/such"];
/// How long it then sleeps.
pub const SLEEP: std::time::Duration = std::time::Duration::from_nanos(12_345_678);

/// Connects to addresses of three families, and sleeps.
fn sockets() {
    for address in CONNECTS {
        match address.strip_prefix("unix:") {
            Some(path) => drop(std::os::unix::net::UnixStream::connect(path)),
            None => drop(std::net::TcpStream::connect(address)),
        }
    }
    let request = nix::sys::time::TimeSpec::from_duration(SLEEP);
    let relative = nix::time::ClockNanosleepFlags::empty();
    let _ = nix::time::clock_nanosleep(nix::time::ClockId::CLOCK_MONOTONIC, relative, &request);
}

/// Calls getppid `n` times, and `m` times the 32-bit call that has the same number.
fn compat(n: u64, m: u64) {
    (0..n).for_each(|_| {
        let _ = std::os::unix::process::parent_id();
    });
    (0..m).for_each(|_| call_32(110));
}

/// A 32-bit system call whose arguments are 0. Its numbers are not those of 64-bit calls: 110 is iopl.
#[cfg(target_arch = "x86_64")]
fn call_32(number: u64) {
    // SAFETY: with arguments of 0 the calls made here touch no memory; what the kernel may change is told
    // (entry_INT80_compat, arch/x86/entry/entry_64_compat.S, zeroes r8 to r11 in old kernels).
    unsafe {
        std::arch::asm!(
            "xchg rbx, {zero}", "int 0x80", "xchg rbx, {zero}",
            zero = inout(reg) 0u64 => _, inout("rax") number => _, in("rcx") 0, in("rdx") 0,
            in("rsi") 0, in("rdi") 0, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn call_32(_: u64) {
    panic!("32-bit calls are made on x86-64 alone");
}
