//! `tracer script`: a recording, ours or perf's, as text, NDJSON, CSV or stacks.

pub mod args;
mod chain;
mod columns;
mod csv;
mod ctf;
mod dump;
mod escape;
mod events;
mod folded;
mod header;
pub mod input;
mod json;
mod names;
mod programs;
mod sampled;
mod samples;
pub mod structs;
mod tasks;
mod text;

use std::{cell::RefCell, collections::HashMap, io, process::ExitCode};

use tracer::{
    Error, ErrorKind, Result,
    perf_data::{
        kind,
        read::{Info, Limits, Next, Reader, Record, Sample, Sorted},
        records::{Lost, LostSamples},
    },
    ring::cpus,
    sink,
    symbol::Symbols,
};

use self::{
    args::{Args, Format, Window},
    columns::Columns,
    csv::Csv,
    ctf::Ctf,
    events::Catalogue,
    folded::Folded,
    input::Input,
    json::Json,
    names::Names,
    sampled::Sampled,
    structs::Structs,
    tasks::Tasks,
    text::Text,
};
use super::say;

/// How much is written at once, and at least how much a whole batch may grow to.
const BATCH: usize = 64 << 10;

/// Records as they lie, or in order.
enum Records<'a> {
    Plain(Box<Reader<'a>>),
    Sorted(Box<Sorted<'a>>),
}

impl<'a> Records<'a> {
    fn new(reader: Reader<'a>, args: &Args) -> Records<'a> {
        match args.unsorted || args.header_only {
            true => Records::Plain(reader.into()),
            false => Records::Sorted(Sorted::new(reader, Limits { bytes: args.mem_max }).into()),
        }
    }

    fn info(&self) -> &Info {
        match self {
            Records::Plain(reader) => reader.info(),
            Records::Sorted(sorted) => sorted.info(),
        }
    }

    fn next(&mut self) -> Result<Option<Next<'_>>> {
        match self {
            Records::Plain(reader) => reader.next_record(),
            Records::Sorted(sorted) => sorted.next_record(),
        }
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<ExitCode> {
    write(args, Output { to: Box::new(io::stdout()), name: "stdout".to_owned() }).map(|_| ExitCode::SUCCESS)
}

/// Where samples go.
pub struct Output {
    pub to: Box<dyn io::Write>,
    /// What errors call it.
    pub name: String,
}

/// Shows a recording somewhere. Of CTF the text of `metadata` is handed back.
pub fn write(args: &Args, output: Output) -> Result<String> {
    let input = Input::open(&args.file)?;
    let reader = input.reader().map_err(|e| e.context(args.file.display()))?;
    Script::new(args, input.is_live(), output)?.all(reader, args)
}

/// What is shown of a recording, and what has not been written yet.
struct Script {
    window: Option<Window>,
    cpus: Option<Vec<u32>>,
    show_lost: bool,
    form: Form,
    /// Columns that may name what no event has, until that is known.
    unchecked: Option<Columns>,
    catalogue: Catalogue,
    tasks: Tasks,
    names: Names,
    /// The last count of each id.
    counts: HashMap<u64, u64>,
    out: Vec<u8>,
    output: Output,
    /// What the recording says of itself is still to be shown.
    header: bool,
    live: bool,
    left_out: LeftOut,
    /// What shows structs.
    args: RefCell<sink::text::Text>,
    /// Samples of BPF programs that are shown as bytes, by event and size: how many there are, and why.
    bytes: HashMap<(usize, usize), (u64, String)>,
}

/// Samples that are not shown, though nobody asked for that.
#[derive(Default)]
struct LeftOut {
    /// Their ids are not those of an event.
    unknown: u64,
    /// They are not what their event's attributes say.
    malformed: u64,
}

enum Form {
    Text(Box<Text>),
    Json(Box<Json>),
    Csv(Box<Csv>),
    Ctf(Box<Ctf>),
    Folded(Box<Folded>),
    Dump,
}

impl Script {
    fn new(args: &Args, live: bool, output: Output) -> Result<Script> {
        let (names, columns) = (Names::new(), Columns::parse(&args.fields)?);
        let form = match args.format {
            _ if args.dump => Form::Dump,
            Format::Text => {
                let fields = columns.fields.iter().map(|name| sink::text::Column::Field(name.clone()));
                let fields = shown(fields.collect(), Some(names.symbols()));
                Form::Text(Box::new(Text::new(columns.clone(), fields)))
            }
            Format::Json => Form::Json(Box::new(Json::new(&columns, names.symbols()))),
            Format::Csv => Form::Csv(Box::new(Csv::new(columns.clone()))),
            Format::Ctf => Form::Ctf(Box::default()),
            Format::Folded => Form::Folded(Box::new(Folded::new(names.symbols()))),
        };
        Ok(Script {
            window: args.time,
            cpus: args.cpu.as_deref().map(cpus::parse).transpose()?,
            show_lost: args.show_lost,
            form,
            unchecked: Some(columns),
            catalogue: Catalogue::new(Structs::new(&args.event)),
            tasks: Tasks::new(),
            names,
            counts: HashMap::new(),
            out: Vec::with_capacity(2 * BATCH),
            output,
            header: args.header || args.header_only,
            live,
            left_out: LeftOut::default(),
            args: RefCell::new(shown(vec![sink::text::Column::Args], None)),
            bytes: HashMap::new(),
        })
    }

    fn all(mut self, reader: Reader<'_>, args: &Args) -> Result<String> {
        let mut records = Records::new(reader, args);
        if !args.header_only || records.info().file.is_none() {
            while let Some(next) = records.next()? {
                // A pipe tells all of it before the first record of the kernel's own.
                if self.header && next.record.is_kernels() {
                    header::show(next.info, &mut self.out);
                    self.header = false;
                }
                if args.header_only {
                    if next.record.is_kernels() {
                        break;
                    }
                    continue;
                }
                if next.record.is_kernels() {
                    self.check(next.info)?;
                }
                self.record(&next);
                let round = self.live && next.record.kind == kind::FINISHED_ROUND;
                if round || self.out.len() >= BATCH {
                    self.flush()?;
                }
            }
        }
        if self.header {
            header::show(records.info(), &mut self.out);
        }
        self.check(records.info())?;
        let mut metadata = String::new();
        match &mut self.form {
            Form::Ctf(ctf) => metadata = ctf.end(records.info(), &mut self.catalogue, &mut self.out),
            Form::Json(json) if !args.header_only => {
                json.begin(records.info(), &mut self.catalogue, &mut self.out);
                json.end(&mut self.out);
            }
            Form::Folded(folded) => folded.end(&mut self.out),
            _ => {}
        }
        self.flush()?;
        self.tell(&records);
        Ok(metadata)
    }

    /// Whether the fields and structs that are asked for are there, once all events are known.
    fn check(&mut self, info: &Info) -> Result<()> {
        let Some(columns) = self.unchecked.take() else { return Ok(()) };
        self.catalogue.check(info)?;
        let mut known: Vec<String> = Vec::new();
        for index in 0..info.events.all().len() {
            let shapes = self.catalogue.get(info, index).map(|event| event.shapes.iter());
            let fields = shapes.into_iter().flatten().flat_map(|shape| &shape.schema.fields);
            known.extend(fields.map(|field| field.name.clone()));
        }
        known.sort();
        known.dedup();
        columns.check(&known)
    }

    fn record(&mut self, next: &Next<'_>) {
        let Next { record, info, .. } = next;
        self.tasks.take(record);
        self.names.take(record, info);
        // All that a header says is known by the first record of the kernel's own.
        if let Form::Json(json) = &mut self.form
            && record.is_kernels()
        {
            json.begin(info, &mut self.catalogue, &mut self.out);
        }
        if let Form::Dump = self.form {
            return dump::record(next, &mut self.out);
        }
        match record.kind {
            kind::SAMPLE => self.sample(record, info),
            kind::LOST | kind::LOST_SAMPLES => self.lost(next),
            _ => {}
        }
    }

    fn sample(&mut self, record: &Record<'_>, info: &Info) {
        let Some(index) = info.events.of(record) else {
            self.left_out.unknown += 1;
            return;
        };
        let Some(event) = self.catalogue.get(info, index) else { return };
        let mut sample = Sample::default();
        if sample.fill(&event.attr, record.body, record.endian).is_none() {
            self.left_out.malformed += 1;
            return;
        }
        let within = |window: &Window| sample.time.is_some_and(|t| (window.from..=window.to).contains(&t));
        let on = |cpus: &Vec<u32>| sample.cpu.is_some_and(|cpu| cpus.binary_search(&cpu).is_ok());
        if !self.window.as_ref().is_none_or(within) || !self.cpus.as_ref().is_none_or(on) {
            return;
        }
        let Some(read) = sample.read else { return self.show(index, &sample, record.misc, info) };
        // As perf does: one sample for each count that has grown, its period what it has grown by.
        for count in read.iter() {
            let Some(id) = count.id else { continue };
            let last = self.counts.insert(id, count.value).unwrap_or(0);
            let Some(index) = info.events.of_id(id).filter(|_| count.value != last) else { continue };
            sample.period = Some(count.value.wrapping_sub(last));
            self.show(index, &sample, record.misc, info);
        }
    }

    /// Shows a sample as one of an event.
    fn show(&mut self, index: usize, sample: &Sample<'_>, misc: u16, info: &Info) {
        let Some(event) = self.catalogue.get(info, index) else { return };
        let comm = self.tasks.name(sample.pid.unwrap_or(0));
        let sampled =
            Sampled { index, event, sample, comm, info, misc, names: &self.names, args: &self.args };
        let raw = sample.raw.map_or(0, <[u8]>::len);
        if let Some(why) = event.why_bytes(raw) {
            self.bytes.entry((index, raw)).or_insert((0, why)).0 += 1;
        }
        let whole = match &mut self.form {
            Form::Text(text) => text.sample(&sampled, &mut self.out),
            Form::Json(json) => json.sample(&sampled, &mut self.out),
            Form::Ctf(ctf) => ctf.sample(&sampled, &mut self.out),
            Form::Csv(csv) => csv.sample(&sampled, &mut self.out),
            Form::Folded(folded) => folded.sample(&sampled),
            Form::Dump => true,
        };
        self.left_out.malformed += u64::from(!whole);
    }

    /// A loss, at its place.
    fn lost(&mut self, next: &Next<'_>) {
        let record = &next.record;
        let lost = match record.kind {
            kind::LOST => Lost::parse(record.body, record.endian).map(|l| l.lost),
            _ => LostSamples::parse(record.body, record.endian).map(|l| l.lost),
        };
        let cpu = next.info.events.cpu(record);
        match &mut self.form {
            Form::Json(json) => {
                let cpu = cpu.unwrap_or(tracer::event::NO_CPU);
                return json.lost(cpu, lost, next.time, &mut self.out);
            }
            Form::Ctf(ctf) => return ctf.lost(cpu, lost, next.time, &mut self.out),
            Form::Folded(folded) => return folded.lost(lost),
            _ => {}
        }
        if !self.show_lost {
            return;
        }
        let time = next.time.unwrap_or(0);
        let line = format!(
            "lost {} at {}.{:09} (from {:#x} on)\n",
            lost.map_or_else(|| "an unknown number".to_owned(), |n| n.to_string()),
            time / 1_000_000_000,
            time % 1_000_000_000,
            record.offset
        );
        self.out.extend_from_slice(line.as_bytes());
    }

    fn flush(&mut self) -> Result<()> {
        let Output { to, name } = &mut self.output;
        let done = to.write_all(&self.out).and_then(|()| to.flush());
        self.out.clear();
        done.map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe => Error::caused(ErrorKind::Closed, format!("writing to {name}"), e),
            _ => Error::caused(ErrorKind::Sink, format!("writing to {name}"), e),
        })
    }

    /// Says what was amiss.
    fn tell(&self, records: &Records<'_>) {
        let notes = &records.info().notes;
        notes.all().iter().for_each(|note| say(&format!("note: {note}")));
        for (kind, count) in notes.unknown_kinds() {
            say(&format!("note: {count} records of kind {kind}, which is not known, were passed over"));
        }
        let LeftOut { unknown, malformed } = self.left_out;
        if unknown > 0 {
            say(&format!("note: {unknown} samples have an id that is no event's: they are left out"));
        }
        if malformed > 0 {
            say(&format!("note: {malformed} samples are not what their events say: they are left out"));
        }
        let mut bytes: Vec<_> = self.bytes.iter().collect();
        bytes.sort();
        for ((index, _), (count, why)) in bytes {
            let event = records.info().events.get(*index).map(|event| records.info().name_of(event));
            say(&format!("note: {count} samples of {} are shown as bytes: {why}", event.unwrap_or_default()));
        }
        if let Form::Ctf(ctf) = &self.form
            && ctf.moved() > 0
        {
            let count = ctf.moved();
            say(&format!("note: {count} samples came late: they stand at the time of the one before them"));
        }
        if let Records::Sorted(sorted) = records
            && sorted.early() > 0
        {
            say(&format!(
                "note: records had to be shown before all older ones were read ({} times): {} came late; \
                 --mem-max lets more wait",
                sorted.early(),
                sorted.late()
            ));
        }
    }
}

/// What shows these columns of an event.
fn shown(columns: Vec<sink::text::Column>, symbols: Option<Symbols>) -> sink::text::Text {
    let text = sink::text::Text::new(sink::text::Options { columns, ..sink::text::Options::default() });
    match symbols {
        Some(symbols) => text.with_symbols(symbols),
        None => text,
    }
}
