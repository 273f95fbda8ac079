//! The sink that the arguments ask for.

use std::{
    io::IsTerminal,
    os::fd::AsFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tracer::{
    Error, ErrorKind, Result,
    event::{Event, Gap},
    frontend::Control,
    ledger::Report,
    ring::TaskRecord,
    schema::{Kind, Show},
    session::Session,
    sink::{
        self, Counts, Header, Note, OnFull, Order, Ordered, Outlet, Sink, StreamSink, folded::Folded,
        hex::Hex, json, raw::Raw, text,
    },
    symbol::Symbols,
};

use super::args::{self, Color, Format, JsonInt, Stream};

/// The one sink of a run.
pub enum Output {
    /// Events as they come.
    Stream(Box<StreamSink<Box<dyn sink::Encode>>>),
    /// Counts at the end.
    Folded(Box<Folded>),
}

/// Opens stdout or the file, in the format asked for. `control` is stopped when it fails or its reader goes away.
pub fn open(args: &Stream, session: &Session, control: &Control) -> Result<Output> {
    let stop = control.clone();
    let defaults = sink::Options::default();
    // Each thread has one in hand, and some are on their way.
    let buffers = defaults.buffers.max(4 * session.reader_threads());
    let options = sink::Options { buffers, on_failure: Some(Box::new(move || stop.stop())), ..defaults };
    let outlet = match &args.output {
        Some(path) => Outlet::create(path, options)?,
        None => Outlet::new("stdout", std::io::stdout().as_fd(), options)?,
    };
    let symbols = symbols(session);
    let encode: Box<dyn sink::Encode> = match args.format {
        Format::Text => Box::new(text::Text::new(text_options(args)?).with_symbols(symbols)),
        Format::Json => {
            let options = json::Options { int_strings: args.json_int == JsonInt::String };
            Box::new(json::Json::new(options).with_symbols(symbols))
        }
        Format::Hex => Box::new(Hex::new(in_color(args))),
        Format::Raw => Box::new(Raw::new()),
        Format::Folded => return Ok(Output::Folded(Box::new(Folded::new(symbols, outlet)))),
    };
    let (stop, until) = (control.clone(), args.duration.and_then(|d| Instant::now().checked_add(d)));
    let stopping = move || stop.stopping() || until.is_some_and(|until| until <= Instant::now());
    let sink = StreamSink::new(encode, outlet);
    let sink = sink.with_on_full(args.on_full, Some(Arc::new(stopping)), session.stop_bound())?;
    Ok(Output::Stream(Box::new(sink)))
}

/// Refuses a rule that the output cannot keep, before anything is attached.
pub fn check_rule(args: &Stream) -> Result<()> {
    let rule = args.on_full;
    if args.format == Format::Folded && rule != OnFull::default() {
        return Err(Error::usage(format!("--on-full {rule}: what -f folded adds up always has room")));
    }
    if rule == OnFull::DropOld {
        let what = "--on-full drop-old: lines that wait to be written are not dropped";
        return Err(Error::usage(what).with_help("block, drop-new or sample=N"));
    }
    Ok(())
}

/// Looks whether a file can be made there, before anything is attached; what is there stays as it is.
pub fn check_place(path: &Path) -> Result<()> {
    let cannot = |why: String| Error::new(ErrorKind::Sink, format!("opening {}: {why}", path.display()));
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(cannot("it is a folder".into()));
    }
    if !path.exists() && !folder.is_dir() {
        return Err(cannot(format!("there is no folder {}", folder.display())));
    }
    Ok(())
}

/// The most bytes of events that wait for their place.
const HELD: usize = 64 << 20;

/// The same behind the order that was asked for. Events are held half of the latency: longer than a CPU is held up
/// between taking an event's time and writing it.
pub fn ordered(args: &Stream, output: Output) -> Ordered<Output> {
    let order = match args.order {
        args::Order::None => Order::None,
        args::Order::Cpu => Order::Cpu,
        args::Order::Time => Order::Time,
        args::Order::Strict => Order::Strict,
    };
    Ordered::new(output, order, args.trace.rings.latency / 2, HELD)
}

/// What names the addresses of this session's events, read while the rights are there.
fn symbols(session: &Session) -> Symbols {
    let attached = session.probes().attached();
    let fields = || attached.iter().flat_map(|a| &a.schema.fields);
    let of = |user: bool, show: Show| fields().any(|f| f.kind == Kind::Stack { user } || f.show == show);
    Symbols::new(of(false, Show::KernelSymbol), of(true, Show::UserSymbol))
}

impl Output {
    /// Opens `path` again and sends what follows there.
    pub fn reopen(&mut self, path: &Path) -> Result<()> {
        match self {
            Output::Stream(sink) => sink.reopen(path),
            Output::Folded(sink) => sink.reopen(path),
        }
    }

    fn sink(&self) -> &dyn Sink {
        match self {
            Output::Stream(sink) => &**sink,
            Output::Folded(sink) => &**sink,
        }
    }

    fn sink_mut(&mut self) -> &mut dyn Sink {
        match self {
            Output::Stream(sink) => &mut **sink,
            Output::Folded(sink) => &mut **sink,
        }
    }
}

impl Sink for Output {
    fn name(&self) -> &str {
        self.sink().name()
    }
    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        self.sink_mut().header(header)
    }
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.sink_mut().event(event)
    }
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.sink_mut().gap(gap)
    }
    fn task(&mut self, record: &TaskRecord<'_>) -> Result<()> {
        self.sink_mut().task(record)
    }
    fn note(&mut self, note: &Note<'_>) -> Result<()> {
        self.sink_mut().note(note)
    }
    fn caught_up(&mut self) -> Result<()> {
        self.sink_mut().caught_up()
    }
    fn wait_room(&mut self, bound: Duration) -> bool {
        self.sink_mut().wait_room(bound)
    }
    fn on_full(&self) -> Option<OnFull> {
        self.sink().on_full()
    }
    fn ending(&mut self, bound: Duration) {
        self.sink_mut().ending(bound);
    }
    fn flush(&mut self) -> Result<()> {
        self.sink_mut().flush()
    }
    fn settle(&mut self, bound: Duration) -> Result<()> {
        self.sink_mut().settle(bound)
    }
    fn footer(&mut self, report: &Report) -> Result<()> {
        self.sink_mut().footer(report)
    }
    fn counts(&self) -> Counts {
        self.sink().counts()
    }
    fn arm(&mut self) -> Option<Box<dyn Sink + Send>> {
        self.sink_mut().arm()
    }
}

fn text_options(args: &Stream) -> Result<text::Options> {
    let mut options = text::Options { time: args.time, color: in_color(args), ..Default::default() };
    if let Some(list) = &args.fields {
        options.columns = text::Column::parse_list(list)?;
    }
    Ok(options)
}

fn in_color(args: &Stream) -> bool {
    match args.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            wanted && args.output.is_none() && std::io::stdout().is_terminal()
        }
    }
}

/// Checks that every column of `--fields` is one, or a field of some probe.
pub fn check_columns(args: &Stream, session: &Session) -> Result<()> {
    let Some(list) = &args.fields else { return Ok(()) };
    let known: Vec<&str> = session.schemas().flat_map(|s| &s.fields).map(|f| &*f.name).collect();
    for column in text::Column::parse_list(list)? {
        if let text::Column::Field(name) = column
            && !known.contains(&&*name)
        {
            return Err(Error::usage(format!("--fields: no probe has a field '{name}'"))
                .with_help(format!("fields: {}", known.join(", "))));
        }
    }
    Ok(())
}
