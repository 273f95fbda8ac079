//! Side-band rings: what becomes of tasks, apart from what programs output.

use std::{ops::ControlFlow, process::Command, time::Duration};

use tracer::{
    ErrorKind,
    record::{Header, kind},
    ring::{
        Budget, Set, Sideband,
        mock::{Mock, Producer},
        sideband::{FORMAT, MISC_COMM_EXEC, Options},
    },
};

/// A record, owned.
#[derive(Debug)]
struct Seen {
    cpu: u32,
    header: Header,
    body: Vec<u8>,
    time: u64,
    id: u64,
}

impl Seen {
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.body[at..at + 4].try_into().unwrap())
    }

    /// The text from `at` to its zero.
    fn text(&self, at: usize) -> String {
        String::from_utf8_lossy(self.body[at..].split(|b| *b == 0).next().unwrap()).into_owned()
    }

    fn is(&self, kind: u32, pid: u32) -> bool {
        self.header.kind == kind && self.word(0) == pid
    }
}

fn drain(sideband: &mut Sideband) -> Vec<Seen> {
    let mut seen = Vec::new();
    let drained = sideband.drain(Budget::ALL, |task| {
        let (header, body) = (task.record.header, task.record.body.to_contiguous().into_owned());
        assert_eq!(task.id.cpu, Some(task.cpu));
        let (time, id) = (task.id.time.unwrap(), task.id.id.unwrap());
        seen.push(Seen { cpu: task.cpu, header, body, time, id });
        ControlFlow::Continue(())
    });
    assert!(!drained.more && !drained.stopped);
    assert_eq!(drained.records, seen.len() as u64);
    seen
}

/// The trailer that [`FORMAT`] asks for, behind a body.
fn trailed(body: &[u8], cpu: u32) -> Vec<u8> {
    let mut bytes = body.to_vec();
    bytes.extend([7_u32, 8].into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(9_u64.to_ne_bytes());
    bytes.extend([cpu, 0].into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(77_u64.to_ne_bytes());
    bytes
}

fn comm(producer: &mut Producer, cpu: u32) -> bool {
    let body = [&7_u32.to_ne_bytes()[..], &8_u32.to_ne_bytes(), b"name\0\0\0\0"].concat();
    producer.record(kind::COMM, MISC_COMM_EXEC, &trailed(&body, cpu)).is_ok()
}

#[test]
fn records_come_with_their_trailer_and_losses_among_them() {
    let Mock { mut producer, reader } = Mock::new(3, 1 << 13, FORMAT, 0);
    let options = Options::default();
    let mut sideband = Sideband::of_mocks(&options, vec![reader]).unwrap();
    producer.fields().id = 77;
    producer.fields().time = 9;
    let mut written = 0;
    while comm(&mut producer, 3) {
        written += 1;
    }
    assert!(!comm(&mut producer, 3));
    let seen = drain(&mut sideband);
    assert_eq!(seen.len(), written);
    for record in &seen {
        assert!(record.is(kind::COMM, 7) && record.word(4) == 8 && record.text(8) == "name");
        assert_eq!(record.header.misc, MISC_COMM_EXEC);
        assert_eq!((record.cpu, record.time, record.id), (3, 9, 77));
    }
    assert!(comm(&mut producer, 3));
    let kinds: Vec<u32> = drain(&mut sideband).iter().map(|record| record.header.kind).collect();
    assert_eq!(kinds, [kind::LOST, kind::COMM]);
    let stats = sideband.stats(3).unwrap();
    assert_eq!((stats.lost, stats.lost_records, stats.unknown), (2, 1, written as u64 + 1));
    assert!(sideband.stats(0).is_none() && sideband.kernel_lost(3).is_none());
}

/// No kernel writes these; they are stepped over.
#[test]
fn records_without_a_trailer_are_nobodys() {
    let Mock { mut producer, reader } = Mock::new(0, 1 << 13, FORMAT, 0);
    let mut sideband = Sideband::of_mocks(&Options::default(), vec![reader]).unwrap();
    producer.record(kind::COMM, 0, &[0; 16]).unwrap();
    assert!(comm(&mut producer, 0));
    let mut names = 0;
    sideband.drain(Budget::ALL, |task| {
        names += u32::from(task.record.header.kind == kind::COMM);
        ControlFlow::Continue(())
    });
    assert_eq!(names, 1);
}

#[test]
fn a_ring_that_is_too_small_for_a_path_is_refused() {
    let error = Sideband::open(&Options { size: 4096, mmaps: true, ..Options::default() }).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.help().unwrap().contains("8 KiB"), "{error:?}");
    let no_latency = Options { latency: Duration::ZERO, ..Options::default() };
    assert_eq!(Sideband::open(&no_latency).err().unwrap().kind(), ErrorKind::Usage);
}

/// One ring a CPU, or nothing where this host refuses them.
fn open(options: &Options) -> Option<Sideband> {
    match Sideband::open(options) {
        Ok(sideband) => Some(sideband),
        Err(e) if e.kind() == ErrorKind::Precondition && matches!(e.os_error(), Some(1 | 13 | 38)) => {
            println!("skipped: {e}; {}", e.help().unwrap_or("no way out is known"));
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}

/// Runs `true` and says its pid.
fn run_true() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

/// A fork, an exec, mappings and an exit of a child, all with times in that order.
fn assert_a_life(seen: &[Seen], pid: u32) {
    let find = |what: &str, f: &dyn Fn(&Seen) -> bool| {
        seen.iter().find(|r| f(r)).unwrap_or_else(|| panic!("no {what} of {pid} in {seen:#?}")).time
    };
    let fork = find("fork", &|r| r.is(kind::FORK, pid) && r.word(4) == std::process::id());
    let exec = find("exec", &|r| {
        r.is(kind::COMM, pid) && r.header.misc & MISC_COMM_EXEC != 0 && r.text(8) == "true"
    });
    let mapped = find("mapping", &|r| r.is(kind::MMAP2, pid) && r.text(64).ends_with("/true"));
    let exit = find("exit", &|r| r.is(kind::EXIT, pid));
    assert!(fork < exec && exec < mapped && mapped < exit, "{fork} {exec} {mapped} {exit}");
}

#[test]
fn a_childs_life_by_cpu() {
    let Some(mut sideband) = open(&Options { mmaps: true, ..Options::default() }) else { return };
    let pid = run_true();
    let seen = drain(&mut sideband);
    assert_a_life(&seen, pid);
    for record in &seen {
        assert_eq!(sideband.event_id(record.cpu), Some(record.id));
    }
    assert!(sideband.cpus().all(|cpu| matches!(sideband.kernel_lost(cpu), Some(0) | None)));
    assert_eq!(sideband.fds().count(), sideband.cpus().count());
    sideband.close().unwrap();
    assert_eq!(sideband.fds().count(), 0);
}

#[test]
fn a_childs_life_by_process() {
    let ours = Options { mmaps: true, process: Some(std::process::id()), ..Options::default() };
    let Some(mut sideband) = open(&ours) else { return };
    // Inherited by what this task starts from now on; the test's thread is another task than its process's first.
    let cpu = sideband.cpus().next().unwrap();
    assert!(!sideband.replace(cpu).unwrap(), "an event of a process outlasts its CPU");
    drain(&mut sideband);
    let gone = Options { process: Some(u32::MAX >> 1), ..Options::default() };
    assert_eq!(Sideband::open(&gone).err().unwrap().os_error(), Some(3));
    drop(sideband);

    let mut child = Command::new("sh")
        .args(["-c", "read line; true; /bin/true; exit 3"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let of_child = Options { process: Some(child.id()), ..ours };
    let mut sideband = open(&of_child).unwrap();
    let outsider = run_true();
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let seen = drain(&mut sideband);
    assert!(seen.iter().all(|r| r.word(0) != outsider), "{seen:#?}");
    let grandchild = seen.iter().find(|r| r.header.kind == kind::FORK && r.word(4) == child.id());
    let grandchild = grandchild.unwrap_or_else(|| panic!("no fork in {seen:#?}")).word(0);
    assert!(seen.iter().any(|r| r.is(kind::COMM, grandchild) && r.text(8) == "true"), "{seen:#?}");
}

/// What is lost of tasks is lost there alone.
#[test]
fn losses_are_its_own() {
    let small = Options { size: 4096, ..Options::default() };
    let Some(mut sideband) = open(&small) else { return };
    let outputs = Set::open(&tracer::ring::Options { size: 4096, ..Default::default() }, None).unwrap();
    for _ in 0..200 {
        run_true();
    }
    let cpus: Vec<u32> = sideband.cpus().collect();
    drain(&mut sideband);
    run_true();
    let told: u64 = drain(&mut sideband).iter().filter(|r| r.header.kind == kind::LOST).count() as u64;
    let stats: Vec<_> = cpus.iter().filter_map(|cpu| sideband.stats(*cpu)).collect();
    assert!(told > 0 && stats.iter().map(|s| s.lost_records).sum::<u64>() == told, "{stats:?}");
    for cpu in cpus {
        assert!(matches!(outputs.kernel_lost(cpu), Some(0) | None));
        let (lost, stats) = (sideband.kernel_lost(cpu), sideband.stats(cpu).unwrap());
        assert!(lost.is_none_or(|lost| lost >= stats.lost), "{lost:?} {stats:?}");
    }
}
