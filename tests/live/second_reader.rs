//! What `tracer record` wrote, by a reader that is neither ours nor perf's: the crate linux-perf-data.

use std::{fs::File, io::BufReader, path::Path};

use anyhow::{Context as _, Result};
use linux_perf_data::{PerfFileReader, PerfFileRecord, linux_perf_event_reader::EventRecord};
use tracer::perf_data::{
    kind,
    read::{Limits, Reader, Sample as Parsed, Sorted},
};

use crate::context::Context;
use crate::table::{Outcome, Test};

/// The tests of this file.
pub const TESTS: &[Test] = &[Test::new("second_reader::has_what_ours_has", has_what_ours_has)];

/// What both tell of a sample.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    time: u64,
    event: String,
    task: (u32, u32),
    cpu: u32,
    ip: u64,
    raw: Vec<u8>,
    chain: Vec<u64>,
}

/// All samples in the order in which a reader gives them, and the names of tasks that it is told.
type Told = (Vec<Sample>, Vec<(u32, Vec<u8>)>);

fn by_ours(path: &Path) -> Result<Told> {
    let bytes = std::fs::read(path)?;
    let mut sorted = Sorted::new(Reader::new(&bytes)?, Limits::default());
    let (mut samples, mut names) = (Vec::new(), Vec::new());
    while let Some(next) = sorted.next_record()? {
        let record = &next.record;
        if record.kind == kind::COMM {
            let comm =
                tracer::perf_data::records::Comm::parse(record.body, record.endian).context("a COMM")?;
            names.push((comm.tid, comm.comm.to_vec()));
        }
        if record.kind != kind::SAMPLE {
            continue;
        }
        let event = next.info.events.of(record).and_then(|i| next.info.events.get(i)).context("no event")?;
        let sample = Parsed::parse(&event.attr, record.body, record.endian).context("a sample")?;
        samples.push(Sample {
            time: sample.time.context("no time")?,
            event: next.info.name_of(event).to_string(),
            task: (sample.tgid.context("no process")?, sample.pid.context("no task")?),
            cpu: sample.cpu.context("no cpu")?,
            ip: sample.ip.unwrap_or(0),
            raw: sample.raw.context("no raw bytes")?.to_vec(),
            chain: sample.callchain.iter().flat_map(|all| all.iter()).collect(),
        });
    }
    Ok((samples, names))
}

fn by_theirs(path: &Path) -> Result<Told> {
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(BufReader::new(File::open(path)?))?;
    let events = perf_file.event_attributes().to_vec();
    let (mut samples, mut names) = (Vec::new(), Vec::new());
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        match record.parse()? {
            EventRecord::Comm(comm) => names.push((comm.tid as u32, comm.name.as_slice().into_owned())),
            EventRecord::Sample(sample) => samples.push(Sample {
                time: sample.timestamp.context("no time")?,
                event: events[attr_index].name.clone().unwrap_or_default(),
                task: (sample.pid.context("no process")? as u32, sample.tid.context("no task")? as u32),
                cpu: sample.cpu.context("no cpu")?,
                ip: sample.ip.unwrap_or(0),
                raw: sample.raw.context("no raw bytes")?.as_slice().into_owned(),
                chain: sample
                    .callchain
                    .iter()
                    .flat_map(|all| (0..all.len()).filter_map(|i| all.get(i)))
                    .collect(),
            }),
            _ => {}
        }
    }
    Ok((samples, names))
}

fn has_what_ours_has(ctx: &Context) -> Outcome {
    let path = ctx.scratch.join("x.data");
    let file = path.display().to_string();
    let pipe = ctx.scratch.join("pipe").display().to_string();
    let tracer = ctx.tracer_path().display().to_string();
    let work = "for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=7 count=100 status=none & done; wait";
    // It does not know that the formats of a pipe's events lie behind their record: of a pipe it reads a file.
    for (output, then) in [
        (format!("-o {file}"), String::new()),
        (format!("-o - > {pipe}"), format!("&& {tracer} convert {pipe} --to file -o {file}")),
    ] {
        let script = format!(
            "{tracer} record -q -k -U {output} 's:write{{fd,count,ret}}/comm==\"dd\"/' rt:sched_process_exit -- sh -c '{work}' {then}"
        );
        ctx.job("sh", ["-c", &script]).succeed()?;
        let (ours, theirs) = (by_ours(&path)?, by_theirs(&path)?);
        // Where tasks that share a CPU are preempted in it, fentry skips calls.
        let stacks = ours.0.iter().filter(|sample| sample.chain.len() > 3).count();
        assert!(stacks > 150 && ours.1.len() > 3, "{stacks} stacks, {} names", ours.1.len());
        // What is of one time may come in either order.
        let sorted = |(mut samples, mut names): Told| {
            let in_order = samples.windows(2).all(|two| two[0].time <= two[1].time);
            samples.sort();
            names.sort();
            (samples, names, in_order)
        };
        assert_eq!(sorted(theirs), sorted(ours), "{output}");
    }
    Ok(())
}
