//! `tracer convert` and `tracer repair`: a recording written anew, in another form or whole.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args as Group, ValueEnum};
use tracer::{
    Error, ErrorKind, Result,
    perf_data::rewrite::{self, Told},
};

use super::{
    say,
    script::{self, Output, args::Format, input::Input},
};

/// `tracer convert`
#[derive(Debug, Group)]
pub struct Convert {
    /// The recording: a file, a directory of `perf record --threads`, or - for a pipe
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it becomes
    #[arg(long, value_enum)]
    pub to: To,
    /// Where it goes; - is stdout, of ndjson and pipe; of ctf a folder that is not there yet
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The struct of what a BPF program put out as event NAME, as of `tracer script`; of ndjson and ctf
    #[arg(long, value_name = "NAME=STRUCT", value_parser = script::structs::parse)]
    pub event: Vec<(String, String)>,
}

/// `tracer repair`
#[derive(Debug, Group)]
pub struct Repair {
    /// The recording that was cut, or never ended
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The file that perf reads
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// A tracefs of the kernel that was recorded: has the formats of tracepoints that the recording lost
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

/// A form of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Objects, one a line, as `tracer run -f json` writes them
    Ndjson,
    /// A folder of the Common Trace Format 1.8, for babeltrace2 and Trace Compass
    Ctf,
    /// A file of perf.data
    File,
    /// What goes through a pipe, for `| perf script -i -`
    Pipe,
}

/// Runs `tracer convert`.
pub fn convert(args: &Convert) -> Result<ExitCode> {
    if let To::Ndjson | To::Ctf = args.to {
        return events(args);
    }
    let input = Input::open(&args.file)?;
    let reader = input.reader().map_err(|e| e.context(args.file.display()))?;
    let told = match args.to {
        To::File => {
            if args.output == Path::new("-") {
                return Err(Error::usage("--to file: a file cannot go to stdout, its head is written last")
                    .with_help("-o FILE, or --to pipe"));
            }
            rewrite::file(reader, create(&args.file, &args.output)?, &|_| None)?
        }
        _ if args.output == Path::new("-") => {
            let stdout = io::stdout().as_fd().try_clone_to_owned();
            let stdout = stdout.map_err(|e| Error::caused(ErrorKind::Sink, "opening stdout", e))?;
            rewrite::pipe(reader, File::from(stdout), &|_| None)?
        }
        _ => rewrite::pipe(reader, create(&args.file, &args.output)?, &|_| None)?,
    };
    tell(&told);
    Ok(ExitCode::SUCCESS)
}

/// Writes events, and no longer the recording.
fn events(args: &Convert) -> Result<ExitCode> {
    let stdout = args.output == Path::new("-");
    let name = args.output.display().to_string();
    let fail = |what: &str, e| Error::caused(ErrorKind::Sink, format!("{what} {name}"), e);
    let format = match args.to {
        To::Ctf => Format::Ctf,
        _ => Format::Json,
    };
    let whole = script::args::Args {
        event: args.event.clone(),
        ..script::args::Args::whole(args.file.clone(), format)
    };
    if format == Format::Json {
        let to: Box<dyn io::Write> = match stdout {
            true => Box::new(io::stdout()),
            false => Box::new(create(&args.file, &args.output)?),
        };
        script::write(&whole, Output { to, name })?;
        return Ok(ExitCode::SUCCESS);
    }
    if stdout {
        return Err(Error::usage("--to ctf: a folder cannot go to stdout").with_help("-o FOLDER"));
    }
    // Before anything is made, so that a wrong name leaves no folder behind.
    drop(Input::open(&args.file)?);
    fs::create_dir(&args.output)
        .map_err(|e| fail("making the folder", e).with_help("name one that is not there"))?;
    let to = Box::new(create(&args.file, &args.output.join("stream"))?);
    let written = script::write(&whole, Output { to, name: name.clone() });
    if written.as_ref().is_err_and(|e| e.kind() == ErrorKind::Usage) {
        // It is refused, and the folder is ours.
        let _ = fs::remove_file(args.output.join("stream")).and_then(|()| fs::remove_dir(&args.output));
    }
    let metadata = written?;
    fs::write(args.output.join("metadata"), metadata).map_err(|e| fail("writing the metadata of", e))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `tracer repair`.
pub fn repair(args: &Repair) -> Result<ExitCode> {
    let input = Input::open(&args.file)?;
    let reader = input.reader().map_err(|e| e.context(args.file.display()))?;
    let formats = |id| formats(args.tracefs.as_deref()?, id);
    let told = rewrite::file(reader, create(&args.file, &args.output)?, &formats)?;
    tell(&told);
    if told.made_up.contains(&"TRACING_DATA") && args.tracefs.is_none() {
        say(
            "help: where the recorded kernel's tracefs is at hand, --tracefs /sys/kernel/tracing shows fields again",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The output, which is not to be the input.
fn create(input: &Path, output: &Path) -> Result<File> {
    let same = |a: &Path, b: &Path| Some(a.canonicalize().ok()? == b.canonicalize().ok()?);
    if same(input, output) == Some(true) {
        return Err(
            Error::usage(format!("-o {} is what is read", output.display())).with_help("name another")
        );
    }
    File::create(output)
        .map_err(|e| Error::caused(ErrorKind::Sink, format!("creating {}", output.display()), e))
}

/// The format of a tracepoint by its id, out of a tracefs.
fn formats(tracefs: &Path, id: u64) -> Option<(String, String)> {
    let wanted = format!("\nID: {id}\n");
    for system in fs::read_dir(tracefs.join("events")).ok()?.flatten() {
        let Ok(events) = fs::read_dir(system.path()) else { continue };
        for event in events.flatten() {
            let Ok(text) = fs::read_to_string(event.path().join("format")) else { continue };
            if text.contains(&wanted) {
                return Some((system.file_name().to_string_lossy().into_owned(), text));
            }
        }
    }
    None
}

fn tell(told: &Told) {
    told.notes.iter().for_each(|note| say(&format!("note: {note}")));
    if !told.made_up.is_empty() {
        say(&format!("note: it did not say {}: made up", told.made_up.join(", ")));
    }
    if told.mended > 0 {
        say(&format!(
            "note: {} mappings bore the mark of a build id and had none, on which perf ends: mended (kernels set it \
             where another recording asked for build ids)",
            told.mended
        ));
    }
    let left_out = match told.left_out {
        0 => String::new(),
        n => format!(", {n} that perf does not take left out"),
    };
    // stderr: stdout may be the recording.
    let _ = writeln!(io::stderr(), "{} records written{left_out}", told.written);
}
