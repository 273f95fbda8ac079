//! Real rings: sizes, limits, lifetimes. Needs perf_event_open; says so and skips where it is refused.
// JUSTIFICATION: limits and rights belong to a process, so what is refused is tested in a forked child, and
// damage by others needs system calls that the crate does not offer.

use std::{fs, ops::ControlFlow, os::fd::AsFd, time::Duration};

use crate::bpf::no_array;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{ForkResult, fork},
};
use tracer::{
    ErrorKind,
    ring::{Budget, Options, Set, Wake, cpus, lockable, wait_for_programs},
};

/// One ring a CPU, or nothing where this host refuses them.
fn open(options: &Options) -> Option<Set> {
    match Set::open(options, None) {
        Ok(set) => Some(set),
        Err(e) if e.kind() == ErrorKind::Precondition && matches!(e.os_error(), Some(1 | 13 | 38)) => {
            println!("skipped: {e}; {}", e.help().unwrap_or("no way out is known"));
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}

fn small() -> Options {
    Options { size: 8192, ..Options::default() }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs `f` in a child, whose limits and rights are its own; true where it did not panic.
fn in_a_child(f: impl FnOnce()) -> bool {
    // SAFETY: the child runs `f` and ends; locks that other threads of the parent held are std's output's only,
    // which the tests' own capture replaces.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_ok();
            std::process::exit(i32::from(!good));
        }
        ForkResult::Parent { child } => {
            use nix::sys::wait::{WaitStatus, waitpid};
            matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0)))
        }
    }
}

#[test]
fn one_ring_a_cpu_of_the_rounded_size() {
    for size in [1, 4096, 8193, 3 * 4096, 1 << 20] {
        let Some(mut set) = open(&Options { size, ..Options::default() }) else { return };
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap() as usize;
        assert_eq!(set.ring_size(), size.next_power_of_two().max(page));
        assert_eq!(set.cpus().collect::<Vec<_>>(), cpus::online().unwrap());
        assert_eq!(set.fds().count(), set.cpus().count());
        let drained = set.drain(Budget::ALL, |_| ControlFlow::Continue(()));
        assert_eq!((drained.records, drained.more), (0, false));
        for cpu in cpus::online().unwrap() {
            assert!(matches!(set.kernel_lost(cpu), Some(0) | None));
            assert_eq!(set.event_ids(cpu).count(), 1);
            set.pause(cpu, true).unwrap();
            set.pause(cpu, false).unwrap();
        }
        set.close().unwrap();
        set.close().unwrap();
    }
}

#[test]
fn wake_rules_that_the_kernel_takes() {
    for wake in [Wake::Records(1), Wake::Records(u32::MAX), Wake::Bytes(1), Wake::Bytes(8128)] {
        // RAW and TIME: records of 24 bytes, LOST of 32.
        let Some(set) = open(&Options { wake, size: 8192, ..Options::default() }) else { return };
        assert_eq!(set.options().wake, wake);
    }
    let wake = Wake::Latency(Duration::from_millis(1));
    assert!(Set::open(&Options { wake: Wake::Bytes(8145), ..small() }, None).is_err());
    open(&Options { wake, ..small() });
}

#[test]
fn a_thousand_sets_leave_no_descriptor_and_no_mapping() {
    let Some(first) = open(&small()) else { return };
    drop(first);
    let good = in_a_child(|| {
        let maps = || fs::read_to_string("/proc/self/maps").unwrap().matches("perf_event").count();
        let (before, mapped) = (descriptors(), maps());
        for _ in 0..1000 {
            let mut set = Set::open(&small(), None).unwrap();
            assert!(descriptors() > before && maps() > mapped);
            set.close().unwrap();
            assert_eq!((descriptors(), maps()), (before, mapped));
        }
        for _ in 0..10 {
            drop(Set::open(&small(), None).unwrap());
        }
        assert_eq!((descriptors(), maps()), (before, mapped));
    });
    assert!(good);
}

#[test]
fn a_replaced_ring_is_drained_and_retired() {
    let Some(mut set) = open(&small()) else { return };
    let cpu = set.cpus().next().unwrap();
    let id = set.event_ids(cpu).next();
    assert!(set.replace(cpu).unwrap());
    assert_ne!(set.event_ids(cpu).next(), id);
    set.drain(Budget::ALL, |_| ControlFlow::Continue(()));
    assert!(matches!(set.kernel_lost(cpu), Some(0) | None));
    assert!(set.replace(u32::MAX).is_err());
    assert!(set.rescan().unwrap().is_empty());
}

#[test]
fn cpus_that_are_not_there() {
    let error = Set::open(&Options { cpus: Some(vec![0, 65_000]), ..small() }, None).err().unwrap();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("65000"));
    let Some(set) = open(&Options { cpus: Some(vec![0, 0]), ..small() }) else { return };
    assert_eq!(set.cpus().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_map_that_is_no_perf_event_array_is_refused() {
    let file = fs::File::open("/proc/self/maps").unwrap();
    let error = Set::open(&small(), Some(no_array(file.as_fd()))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error:?}");
}

#[test]
fn too_few_descriptors_is_told_with_how_many_are_needed() {
    if open(&small()).is_none() {
        return;
    }
    assert!(in_a_child(|| {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, descriptors() as u64 + 8, hard).unwrap();
        let rings = cpus::online().unwrap().len();
        let mut files: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        // One is free, for reading the CPU lists and then for the first ring.
        files.pop();
        match Set::open(&small(), None) {
            Ok(_) => assert_eq!(rings, 1),
            Err(e) => {
                assert_eq!((e.kind(), e.os_error()), (ErrorKind::Precondition, Some(24)), "{e:?}");
                assert!(
                    e.help().unwrap().contains(&format!("{rings} rings need {rings} descriptors")),
                    "{e:?}"
                );
            }
        }
    }));
}

/// As a user without CAP_IPC_LOCK, who may open events all the same.
#[test]
fn the_mlock_limit_is_told_with_what_would_fit() {
    if open(&small()).is_none() || !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root, to become a user");
        return;
    }
    assert!(in_a_child(|| {
        setrlimit(Resource::RLIMIT_MEMLOCK, 64 << 10, 64 << 10).unwrap();
        drop_all_but_perfmon();
        let rings = cpus::online().unwrap().len();
        let fit = lockable(rings).unwrap();
        let error = Set::open(&Options { size: 64 << 20, ..small() }, None).err().unwrap();
        assert_eq!((error.kind(), error.os_error()), (ErrorKind::Precondition, Some(1)), "{error:?}");
        let help = error.help().unwrap();
        for word in ["perf_event_mlock_kb", "RLIMIT_MEMLOCK", "64 KiB", "would fit"] {
            assert!(help.contains(word), "{help}");
        }
        // What is said to fit does, and twice of it does not.
        if fit > 0 {
            drop(Set::open(&Options { size: fit, ..small() }, None).unwrap());
            assert!(Set::open(&Options { size: 2 * fit, ..small() }, None).is_err());
        }
        // Without any capability, the error says which is missing.
        drop_capabilities(0);
        let error = Set::open(&small(), None).err();
        if let Some(error) = error {
            assert!(error.help().unwrap().contains("CAP_PERFMON"), "{error:?}");
        }
    }));
}

/// Becomes uid 65534 with CAP_PERFMON (38) alone.
fn drop_all_but_perfmon() {
    use nix::unistd::{Uid, setresuid};
    nix::sys::prctl::set_keepcaps(true).unwrap();
    let nobody = Uid::from_raw(65_534);
    setresuid(nobody, nobody, nobody).unwrap();
    drop_capabilities(1 << 38);
}

/// capset(2): `permitted` and effective, nothing inheritable.
fn drop_capabilities(permitted: u64) {
    let header = [0x2008_0522_u32, 0];
    let (low, high) = (permitted as u32, (permitted >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: `_LINUX_CAPABILITY_VERSION_3` takes a header of two u32 and data of two times three.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// K3: an event that is not mapped says HUP; one that is, nothing while its ring is empty.
#[test]
fn a_mapped_and_empty_ring_is_not_ready() {
    let Some(set) = open(&small()) else { return };
    for (_, fd) in set.fds() {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(0));
    }
}

#[test]
fn programs_can_be_waited_for() {
    // True but where CPUs are nohz_full; either way it ends.
    println!("certain: {}", wait_for_programs());
}
