//! `tracer list`: what can be probed, one line each, with its parameters or the reason why not.

use std::{
    io::{self, BufWriter, Write},
    ops::ControlFlow,
    process::ExitCode,
};

use serde_json::json;
use tracer::{
    Error, ErrorKind, Result,
    probe::{
        catalogue::Catalogue,
        list::{self, Listed, Pattern},
    },
};

use super::{
    args::{List, ListFormat},
    complain, plain,
};

/// Runs it.
pub fn run(args: &List) -> Result<ExitCode> {
    let pattern: Pattern = args.pattern.parse()?;
    let mut catalogue = Catalogue::new();
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout());
    let (mut found, mut failed) = (0u64, None);
    let unseen = list::list(&mut catalogue, &pattern, &mut |listed| {
        if listed.padding && !args.verbose {
            return ControlFlow::Continue(());
        }
        found += 1;
        let written = match args.format {
            ListFormat::Text => text(&mut out, &listed, args.verbose),
            ListFormat::Json => json(&mut out, &listed),
        };
        failed = written.err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match failed.or_else(|| out.flush().err()) {
        Some(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Some(e) => return Err(Error::caused(ErrorKind::Sink, "writing to stdout", e)),
        None => {}
    }
    // What was not looked at is no error where something else was found.
    unseen.iter().for_each(complain);
    match found {
        0 => Err(list::nothing(&mut catalogue, &pattern, &args.pattern)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn text(out: &mut impl Write, listed: &Listed, verbose: bool) -> io::Result<()> {
    let mut line = listed.to_string();
    if let Some(params) = &listed.params {
        let one = |(kind, name): &(String, String)| {
            let space = if kind.ends_with('*') { "" } else { " " };
            format!("{kind}{space}{name}")
        };
        let params: Vec<_> = params.iter().map(one).collect();
        line.push_str(&format!("({})", params.join(", ")));
    }
    if let Some(ret) = &listed.ret {
        line.push_str(&format!(" -> {ret}"));
    }
    if let (Some(module), true) = (&listed.module, verbose) {
        line.push_str(&format!(" [{module}]"));
    }
    if let (Some(address), true) = (listed.address, verbose) {
        line.push_str(&format!(" @{address:#x}"));
    }
    if let Some(why) = &listed.refused {
        line.push_str(&format!(" -- cannot be: {why}"));
    }
    writeln!(out, "{}", plain(&line))
}

fn json(out: &mut impl Write, listed: &Listed) -> io::Result<()> {
    let params = listed.params.as_ref().map(|params| {
        params.iter().map(|(kind, name)| json!({ "name": name, "type": kind })).collect::<Vec<_>>()
    });
    let value = json!({
        "type": "listed",
        "spec": listed.to_string(),
        "provider": listed.provider.long(),
        "scope": (!listed.scope.is_empty()).then_some(&listed.scope),
        "target": listed.target,
        "module": listed.module,
        "address": listed.address.map(|a| format!("{a:#x}")),
        "attachable": listed.refused.is_none(),
        "why": listed.refused,
        "params": params,
        "ret": listed.ret,
    });
    writeln!(out, "{value}")
}
