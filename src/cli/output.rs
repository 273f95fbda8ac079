//! The sink that the arguments ask for.

use std::{io::IsTerminal, os::fd::AsFd};

use tracer::{
    Error, Result,
    frontend::Control,
    session::Session,
    sink::{self, Outlet, StreamSink, hex::Hex, json, raw::Raw, text},
};

use super::args::{Color, Format, JsonInt, Stream};

/// The one sink of a run.
pub type Output = StreamSink<Box<dyn sink::Encode>>;

/// Opens stdout or the file, in the format asked for. `control` is stopped when it fails or its reader goes away.
pub fn open(args: &Stream, control: &Control) -> Result<Output> {
    let stop = control.clone();
    let options = sink::Options { on_failure: Some(Box::new(move || stop.stop())), ..Default::default() };
    let outlet = match &args.output {
        Some(path) => Outlet::create(path, options)?,
        None => Outlet::new("stdout", std::io::stdout().as_fd(), options)?,
    };
    Ok(StreamSink::new(encoder(args)?, outlet))
}

fn encoder(args: &Stream) -> Result<Box<dyn sink::Encode>> {
    Ok(match args.format {
        Format::Text => Box::new(text::Text::new(text_options(args)?)),
        Format::Json => {
            Box::new(json::Json::new(json::Options { int_strings: args.json_int == JsonInt::String }))
        }
        Format::Hex => Box::new(Hex::new(in_color(args))),
        Format::Raw => Box::new(Raw::new()),
    })
}

fn text_options(args: &Stream) -> Result<text::Options> {
    let mut options = text::Options { time: args.time.parse()?, color: in_color(args), ..Default::default() };
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
