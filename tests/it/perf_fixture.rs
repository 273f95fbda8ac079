//! A recording made by hand, in either byte order, as a file or a pipe; and perf, where it is installed, to judge it.

use std::{
    io::{Cursor, Write},
    path::Path,
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use tracer::{
    perf_data::{
        Attr, Endian, Feature, TracingData,
        feature::{ClockData, Cpus, EventDesc, id},
        flag, kind,
        records::{self, Comm, Lost, SampleHead, put_trailer},
        write::{FileWriter, Opening, PipeWriter},
    },
    record::SampleId,
};

/// The first event's number; the others' follow.
pub const FIRST: u64 = 0x7001;

/// What `tracer:NAME` events with a number and a string are told by.
pub fn format(name: &str, id: u64) -> Vec<u8> {
    format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:u64 count;\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:s64 ret;\toffset:16;\tsize:8;\tsigned:1;\n\
         \tfield:__data_loc char[] path;\toffset:24;\tsize:4;\tsigned:0;\n\n\
         print fmt: \"count=%llu ret=%lld path=%s\", REC->count, REC->ret, __get_str(path)\n"
    )
    .into()
}

/// A recording in the making.
pub struct Made {
    pub endian: Endian,
    pub opening: Opening,
    pub records: Vec<u8>,
}

impl Made {
    /// Events of these names, with everything that perf wants to know.
    pub fn new(endian: Endian, names: &[&str]) -> Made {
        let flags = flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
        let first = flag::COMM | flag::COMM_EXEC | flag::MMAP | flag::MMAP2 | flag::TASK;
        let event = |(i, name): (usize, &&str)| EventDesc {
            attr: Attr {
                kind: Attr::TRACEPOINT,
                config: FIRST + i as u64,
                period: 1,
                sample_type: SampleHead::SAMPLE_TYPE,
                flags: flags | if i == 0 { first } else { 0 },
                clockid: 1,
                ..Attr::default()
            },
            name: format!("tracer:{name}").into(),
            ids: vec![i as u64 + 1],
        };
        let formats = names.iter().enumerate().map(|(i, name)| format(name, FIRST + i as u64)).collect();
        let text = |id, text: &str| Feature::Text(id, text.into());
        let features = vec![
            Feature::TracingData(Box::new(TracingData::of(endian, vec![(b"tracer".to_vec(), formats)]))),
            text(id::HOSTNAME, "judged"),
            text(id::OSRELEASE, "6.1.0"),
            text(id::VERSION, "0.1"),
            text(id::ARCH, "x86_64"),
            text(id::CPUDESC, "a CPU"),
            Feature::Cpus(Cpus { available: 4, online: 4 }),
            Feature::CommandLine(vec![b"tracer".to_vec(), b"record".to_vec()]),
            Feature::ClockResolution(1),
            Feature::ClockData(ClockData {
                clockid: 1,
                wall: 1_700_000_000_000_000_000,
                clock: 1_000_000_000,
            }),
        ];
        let events = names.iter().enumerate().map(event).collect();
        Made { endian, opening: Opening { endian, events, features }, records: Vec::new() }
    }

    /// A task's name, told before anything else.
    pub fn comm(&mut self, tid: u32, comm: &str, time: u64) {
        let endian = self.endian;
        let comm = Comm { pid: tid, tid, comm: comm.as_bytes() };
        records::put(kind::COMM, 0, endian, &mut self.records, |out| {
            comm.write(endian, out);
            trailer(tid, time, 0, endian, out);
        });
    }

    /// A loss on a CPU.
    pub fn lost(&mut self, cpu: u32, lost: u64, time: u64) {
        let endian = self.endian;
        records::put(kind::LOST, 0, endian, &mut self.records, |out| {
            Lost { id: 1, lost }.write(endian, out);
            trailer(0, time, cpu, endian, out);
        });
    }

    /// The end of a round.
    pub fn round(&mut self) {
        records::put(kind::FINISHED_ROUND, 0, self.endian, &mut self.records, |_| {});
    }

    /// A sample of the `event`th event.
    pub fn sample(&mut self, event: u64, tid: u32, cpu: u32, time: u64, count: u64, path: &str) {
        let endian = self.endian;
        let mut raw = Vec::new();
        endian.put_u16(&mut raw, (FIRST + event) as u16);
        raw.extend_from_slice(&[0, 0]);
        endian.put_u32(&mut raw, tid);
        endian.put_u64(&mut raw, count);
        endian.put_u64(&mut raw, count.wrapping_neg());
        endian.put_u32(&mut raw, (path.len() as u32 + 1) << 16 | 28);
        raw.extend_from_slice(path.as_bytes());
        raw.push(0);
        raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
        let head = SampleHead { id: event + 1, ip: 0, pid: tid, tid, time, cpu, period: 1 };
        records::put(kind::SAMPLE, records::misc::KERNEL, endian, &mut self.records, |out| {
            out.extend_from_slice(&head.to_bytes(endian));
            endian.put_u32(out, raw.len() as u32);
            out.extend_from_slice(&raw);
        });
    }

    /// The finished file.
    pub fn file(&self) -> Vec<u8> {
        let mut file = FileWriter::new(Cursor::new(Vec::new()), &self.opening).unwrap();
        file.write(&self.records).unwrap();
        let time = Feature::SampleTime(1_000_000_000, 2_000_000_000);
        file.finish(&[time]).unwrap().into_inner()
    }

    /// The same as a pipe.
    pub fn pipe(&self) -> Vec<u8> {
        let mut pipe = PipeWriter::new(Vec::new(), &self.opening).unwrap();
        pipe.write(&self.records).unwrap();
        pipe.into_inner()
    }
}

fn trailer(tid: u32, time: u64, cpu: u32, endian: Endian, out: &mut Vec<u8>) {
    let id = SampleId {
        tgid: Some(tid),
        pid: Some(tid),
        time: Some(time),
        id: Some(1),
        cpu: Some(cpu),
        ..SampleId::default()
    };
    put_trailer(SampleHead::SAMPLE_TYPE, &id, endian, out);
}

/// Whether perf is here; says so once where it is not.
pub fn perf() -> bool {
    static PERF: OnceLock<bool> = OnceLock::new();
    *PERF.get_or_init(|| {
        let there = Command::new("perf").arg("--version").output().is_ok_and(|out| out.status.success());
        if !there {
            println!("skipped: perf is not installed; `cargo xtask setup` says how");
        }
        there
    })
}

/// What perf says of some bytes: a file in a folder of its own, or where `pipe`, its stdin.
pub fn judge(bytes: &[u8], pipe: bool, args: &[&str]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("made.data");
    std::fs::write(&file, bytes).unwrap();
    let input = if pipe { Path::new("-") } else { &file };
    let mut perf = Command::new("perf");
    perf.args(args).arg("-i").arg(input).env("TZ", "UTC").env("HOME", dir.path()).current_dir(dir.path());
    let mut child = perf.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = if pipe { bytes.to_vec() } else { Vec::new() };
    // perf may end before it has read all, on an error that its output tells.
    let feed = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    feed.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    // It says of every kind of event that is not there what it could not have shown of it.
    let told = |line: &&str| !line.starts_with("'trace' not valid for");
    let stderr: String = stderr.split_inclusive('\n').filter(told).collect();
    assert!(status.success(), "perf {args:?}: {status}\n{stdout}\n{stderr}");
    (stdout, stderr)
}
