//! Several threads read mock rings into one sink: each event once, in its ring's order, and the books add up.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tracer::{
    Error, ErrorKind, Result,
    event::{Event, Gap},
    ledger::Report,
    probe::Attached,
    record::SampleFormat,
    ring::{
        Budget, Set,
        mock::{Mock as Ring, Producer},
    },
    session::{
        Shard,
        mock::{Counts, Mock},
    },
    sink::{
        self, Arms, Counts as Told, Encode, Header, Item, Memory, Note, Order, Ordered, Outlet, Sink,
        StreamSink, Way, hex::Hex, json::Json, raw, text,
    },
    symbol::Symbols,
};

use crate::{
    sink_fixture::{WRITE, raw as event_bytes, report, with_header},
    support::raw_only,
};

const CPUS: u32 = 8;
/// Attempts to emit on each CPU.
const EACH: u32 = if cfg!(debug_assertions) { 2_000 } else { 50_000 };

fn attached() -> Vec<Attached> {
    let (schema, how) = (WRITE.clone(), "by hand".into());
    vec![Attached { schema, how, passed_over: Vec::new(), pattern: None }]
}

/// Rings of these CPUs for so many threads, and the kernel's side of each.
pub fn rings(cpus: &[u32], threads: usize, limit: Option<u64>) -> (Mock, Vec<Producer>) {
    let rings = cpus.iter().map(|cpu| Ring::new(*cpu, 1 << 14, SampleFormat::RAW, 0));
    let (producers, readers) = rings.map(|ring| (ring.producer, ring.reader)).unzip();
    let set = Set::of_mocks(&raw_only(), readers).unwrap();
    (Mock::new(set, threads, attached(), limit).unwrap(), producers)
}

/// One attempt.
pub fn emit(producer: &mut Producer, seq: u32) -> bool {
    let mut raw = event_bytes(seq, 0, b"dd");
    raw[8..10].copy_from_slice(&1_u16.to_ne_bytes());
    producer.output(&raw).is_ok()
}

/// Every CPU emits on a thread of its own while each shard is read on one, into `sink`; then the rest is read.
fn run<S: Sink + Send>(mock: &mut Mock, producers: &mut [Producer], sink: &mut S) -> (bool, u64) {
    let of = (0..CPUS).map(|cpu| mock.shard_of(cpu)).collect();
    let unhanded = Arc::default();
    with_header(|header| sink.header(header)).unwrap();
    let mut arms = Arms::new(sink, of, std::iter::once(WRITE.clone()), &unhanded);
    let (running, apart) = (AtomicU64::new(producers.len() as u64), arms.apart());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for producer in producers.iter_mut() {
            scope.spawn(|| {
                for seq in 1..=EACH {
                    emit(producer, seq);
                    if seq % 64 == 0 {
                        thread::yield_now();
                    }
                }
                if running.fetch_sub(1, Relaxed) == 1 {
                    ended.store(true, std::sync::atomic::Ordering::Release);
                }
            });
        }
        for (mut shard, mut way) in mock.shards().into_iter().zip(arms.ways().1) {
            let ended = &ended;
            scope.spawn(move || {
                loop {
                    let last = ended.load(std::sync::atomic::Ordering::Acquire);
                    // Most budgets end within a ring.
                    let more = shard.drain(Budget::records(100), &mut way).unwrap().more;
                    way.flush().unwrap();
                    if last && !more {
                        break;
                    }
                }
            });
        }
    });
    arms.settle(Duration::from_secs(20)).unwrap();
    arms.footer(&report()).unwrap();
    drop(arms);
    (apart, unhanded.load(Relaxed))
}

/// What was read, against what was emitted.
fn books(mock: &Mock, producers: &[Producer]) -> u64 {
    let mut events = 0;
    for (cpu, producer) in (0..).zip(producers) {
        let (counts, stats) = (mock.counts(cpu), mock.stats(cpu).unwrap());
        // What was lost last no LOST record tells, and no number.
        let untold = producer.lost() - stats.lost;
        assert_eq!(counts.events + counts.holes + untold, u64::from(EACH), "cpu {cpu}");
        assert_eq!((counts.undecoded, stats.corruptions), (0, 0));
        assert_eq!(counts.events, stats.samples());
        events += counts.events;
    }
    events
}

/// Numbers rise on each CPU, and gaps stand for those that are missing.
#[derive(Default)]
struct InOrder {
    last: [u64; CPUS as usize],
    missing: [u64; CPUS as usize],
}

impl InOrder {
    fn event(&mut self, cpu: usize, seq: u64) {
        let missing = std::mem::take(&mut self.missing[cpu]);
        assert_eq!(self.last[cpu] + missing + 1, seq, "cpu {cpu}");
        self.last[cpu] = seq;
    }

    fn gap(&mut self, cpu: usize, count: u64) {
        self.missing[cpu] += count;
    }
}

#[test]
fn by_turns_each_event_comes_once_in_the_order_of_its_ring() {
    for threads in [1, 3, 8] {
        let (mut mock, mut producers) = rings(&(0..CPUS).collect::<Vec<_>>(), threads, None);
        let mut sink = Memory::new();
        let (apart, unhanded) = run(&mut mock, &mut producers, &mut sink);
        assert_eq!((apart, unhanded), (false, 0));
        let events = books(&mock, &producers);
        assert_eq!(sink.counts().delivered, events);
        let mut order = InOrder::default();
        for item in &sink.items {
            match item {
                Item::Event { cpu, wire, name, .. } => {
                    assert_eq!(name, "write");
                    order.event(*cpu as usize, u64::from(wire.seq));
                }
                Item::Gap(gap) => order.gap(gap.cpu as usize, gap.count.unwrap()),
                _ => {}
            }
        }
        let footer = sink.items.last();
        assert!(matches!(footer, Some(Item::Footer(_))), "{footer:?}");
        println!("{threads} threads: {events} of {} events", EACH * CPUS);
    }
}

/// A pipe, and who reads all that comes out of it.
fn pipe() -> (OwnedFd, thread::JoinHandle<Vec<u8>>) {
    let (read, write) = nix::unistd::pipe().unwrap();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        File::from(read).read_to_end(&mut bytes).unwrap();
        bytes
    });
    (write, reader)
}

#[test]
fn apart_each_event_comes_once_in_the_order_of_its_ring() {
    // With few batches some events find no room, and are told.
    for (threads, buffers) in [(2, 64), (3, 5), (8, 64)] {
        let (mut mock, mut producers) = rings(&(0..CPUS).collect::<Vec<_>>(), threads, None);
        let (write, reader) = pipe();
        let options = sink::Options { buffers, batch: 4096, ..sink::Options::default() };
        let mut sink = StreamSink::new(raw::Raw::new(), Outlet::new("out", write.as_fd(), options).unwrap());
        let (apart, unhanded) = run(&mut mock, &mut producers, &mut sink);
        assert_eq!((apart, unhanded), (true, 0));
        let counts = sink.counts();
        drop((sink, write));
        let events = books(&mock, &producers);
        assert_eq!(counts.delivered + counts.dropped_queue, events, "{counts:?}");
        let (bytes, mut order, mut seen) = (reader.join().unwrap(), InOrder::default(), 0);
        for data in raw::frames(&bytes) {
            match data.unwrap() {
                raw::Data::Event { cpu, raw, .. } => {
                    let seq = u32::from_ne_bytes(raw[12..16].try_into().unwrap());
                    order.event(cpu as usize, seq.into());
                    seen += 1;
                }
                raw::Data::Gap(gap) => order.gap(gap.cpu as usize, gap.count.unwrap()),
                _ => {}
            }
        }
        assert_eq!(seen, counts.delivered);
        println!("{threads} threads, {buffers} batches: {seen} events, {} dropped", counts.dropped_queue);
    }
}

#[test]
fn a_limit_is_met_to_the_event() {
    for limit in [0, 777, 10_001] {
        let (mut mock, mut producers) = rings(&(0..CPUS).collect::<Vec<_>>(), 3, Some(limit));
        let mut sink = sink::Count::default();
        run(&mut mock, &mut producers, &mut sink);
        let events = books(&mock, &producers);
        assert_eq!(sink.events(), limit.min(events));
        let beyond: u64 = (0..CPUS).map(|cpu| mock.counts(cpu).beyond).sum();
        assert_eq!(sink.events() + beyond, events);
        assert!(mock.shards().iter().all(Shard::limit_reached) || events < limit);
    }
}

/// Takes some events, fails at some and panics at others.
#[derive(Default)]
struct Moody {
    told: u64,
    taken: u64,
}

impl Sink for Moody {
    fn name(&self) -> &str {
        "moody"
    }
    fn header(&mut self, _: &Header<'_>) -> Result<()> {
        Ok(())
    }
    fn event(&mut self, _: &Event<'_>) -> Result<()> {
        self.told += 1;
        match self.told % 100 {
            7 | 8 => Err(Error::new(ErrorKind::Sink, "not this one")),
            // Without a word on stderr.
            50 => resume_unwind(Box::new("not this one either")),
            _ => {
                self.taken += 1;
                Ok(())
            }
        }
    }
    fn gap(&mut self, _: &Gap) -> Result<()> {
        Ok(())
    }
    fn note(&mut self, _: &Note<'_>) -> Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn settle(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }
    fn footer(&mut self, _: &Report) -> Result<()> {
        Ok(())
    }
    fn counts(&self) -> Told {
        Told { delivered: self.taken, dropped_sink: self.told - self.taken, ..Told::default() }
    }
}

#[test]
fn what_a_panic_keeps_from_the_sink_is_counted() {
    let (mut mock, mut producers) = rings(&[0, 1], 2, None);
    let (mut sink, unhanded, mut panics, mut failures) = (Moody::default(), Arc::default(), 0, 0);
    let of: Vec<usize> = (0..2).map(|cpu| mock.shard_of(cpu)).collect();
    for round in 0..40 {
        for producer in &mut producers {
            assert!((1..=30).all(|n| emit(producer, 30 * round + n)));
        }
        let read = || -> Result<()> {
            let mut arms = Arms::new(&mut sink, of.clone(), std::iter::once(WRITE.clone()), &unhanded);
            for (mut shard, mut way) in mock.shards().into_iter().zip(arms.ways().1) {
                shard.drain(Budget::ALL, &mut way)?;
                way.flush()?;
            }
            Ok(())
        };
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(read) => failures += u64::from(read.is_err()),
            Err(_) => panics += 1,
        }
    }
    let mut rest = sink::Count::default();
    mock.shards().iter_mut().for_each(|shard| assert!(!shard.drain(Budget::ALL, &mut rest).unwrap().more));
    assert!(panics > 3 && failures > 3, "{panics} panics, {failures} failures");
    let told = sink.counts();
    let read: u64 = (0..2).map(|cpu| mock.counts(cpu).events).sum();
    assert_eq!(read, 2400);
    assert!(unhanded.load(Relaxed) > 0);
    assert_eq!(told.delivered + told.dropped_sink + unhanded.load(Relaxed) + rest.events(), read);
}

#[test]
fn formats_that_hang_on_what_came_before_go_one_way() {
    let (write, _reader) = pipe();
    let outlet = || Outlet::new("out", write.as_fd(), sink::Options::default()).unwrap();
    let arm = |encode: Box<dyn Encode>| StreamSink::new(encode, outlet()).arm().is_some();
    let text = |time| text::Text::new(text::Options { time, ..text::Options::default() });
    assert!(arm(Box::new(text(sink::TimeFormat::Wall))));
    assert!(!arm(Box::new(text(sink::TimeFormat::Delta))));
    assert!(arm(Box::<Json>::default()) && arm(Box::new(Hex::new(false))) && arm(Box::<raw::Raw>::default()));
    assert!(arm(Box::new(Json::default().with_symbols(Symbols::new(false, false)))));
    let ordered =
        |order| Ordered::new(StreamSink::new(raw::Raw::new(), outlet()), order, Duration::ZERO, 1 << 20);
    assert!(ordered(Order::None).arm().is_some());
    assert!(ordered(Order::Time).arm().is_none());
}

/// The times of the clock are the same on each way.
#[test]
fn each_way_writes_what_the_sink_would() {
    let time = sink::TimeFormat::Utc;
    let all: [Box<dyn Encode>; 3] = [
        Box::new(text::Text::new(text::Options { time, color: true, ..text::Options::default() })),
        Box::new(Json::default()),
        Box::new(Hex::new(true)),
    ];
    for mut encode in all {
        with_header(|header| encode.header(header, &mut Vec::new()));
        let mut arm = encode.arm().unwrap();
        let raw = event_bytes(3, 0, b"dd");
        let event = crate::sink_fixture::event(2, 2_083_123_456_789, &raw);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        encode.event(&event, &mut one);
        arm.event(&event, &mut other);
        assert_eq!(String::from_utf8(one).unwrap(), String::from_utf8(other).unwrap());
    }
}

#[test]
fn rings_are_dealt_out_in_turn() {
    let cpus = [0, 2, 4, 5, 9, 11, 40];
    let rings = |threads| {
        let rings = cpus.iter().map(|cpu| Ring::new(*cpu, 4096, SampleFormat::RAW, 0).reader).collect();
        Set::of_mocks(&raw_only(), rings).unwrap().into_shards(threads).unwrap()
    };
    let dealt = |threads| rings(threads).iter().map(|set| set.cpus().collect()).collect::<Vec<Vec<u32>>>();
    assert_eq!(dealt(1), [cpus]);
    assert_eq!(dealt(3), [vec![0, 5, 40], vec![2, 9], vec![4, 11]]);
    assert_eq!(dealt(99).len(), cpus.len(), "no thread without a ring");
    assert_eq!(dealt(0), [cpus]);
    let two = rings(2);
    assert_eq!(two[1].options().cpus.as_deref(), Some(&[2, 5, 11][..]));
    assert!(two[0].wants(4) && !two[1].wants(4) && !two[0].wants(1));
    let (mock, _) = self::rings(&[0, 3], 2, None);
    assert_eq!((mock.shard_of(3), mock.shard_of(7), mock.counts(9)), (1, 0, Counts::default()));
}

/// A way is a sink like any other.
#[test]
fn notes_stand_behind_what_was_told_before_them() {
    let mut sink = Memory::new();
    let mut arms = Arms::new(&mut sink, vec![0], std::iter::once(WRITE.clone()), &Arc::default());
    let (_, mut ways) = arms.ways();
    let way: &mut Way<'_, '_, Memory> = &mut ways[0];
    let mut raw = event_bytes(1, 0, b"dd");
    raw[8] = 1;
    way.event(&crate::sink_fixture::event(0, 5, &raw)).unwrap();
    way.note(&Note::Error("ring")).unwrap();
    drop(arms);
    assert!(matches!(&sink.items[..], [Item::Event { .. }, Item::Note(_)]), "{:?}", sink.items);
}
