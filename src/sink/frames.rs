//! Stacks and single addresses by their symbols, as text, as JSON, and as the words of folded stacks.
//!
//! A frame in text is a line of its own under the event's, behind a tab, in the manner of `perf script`:
//!
//! ```text
//!     ffffffff8145a0c4 vfs_write+0x4
//!     ffffffffc0931a20 ext4_file_write_iter+0x70 [ext4]
//!         7f3a6c1149e0 deflate_fast (/usr/lib/libz.so.1) deflate.c:1821 inlined
//!         7f3a6c1149e0 deflate+0x3e0 (/usr/lib/libz.so.1) deflate.c:1004
//!         55d01c2a91f3 (/usr/bin/gone 1f0c89:0x21f3)
//!         55d01c2b0000
//! ```

use std::{fmt::Write as _, io::Write as _, sync::Arc};

use super::{
    escape,
    number::{decimal, fill_up},
};
use crate::{
    event::Event,
    schema::{Stack, Value},
    symbol::{Frame, Inlined, Line, Space, Symbols},
};

/// What names addresses while events are written, with what it reuses.
#[derive(Debug, Default)]
pub(super) struct Namer {
    symbols: Option<Symbols>,
    frames: Vec<Arc<Frame>>,
}

impl Namer {
    /// One that knows these symbols.
    pub fn new(symbols: Symbols) -> Namer {
        Namer { symbols: Some(symbols), frames: Vec::new() }
    }

    /// Another, where there are no names to be had: they are looked up and kept once.
    pub fn arm(&self) -> Option<Namer> {
        let named = self.symbols.as_ref().is_some_and(|symbols| !symbols.is_empty());
        (!named).then(Namer::default)
    }

    /// The frames of a stack of a process, innermost first, from the hook on: what the kernel went through to run
    /// our program there is no part of what was traced.
    pub fn stack(&mut self, stack: &Stack<'_>, tgid: u32) -> &[Arc<Frame>] {
        self.frames.clear();
        match &mut self.symbols {
            Some(symbols) => symbols.stack(space(stack.user, tgid), stack.addresses(), &mut self.frames),
            None => self.frames.extend(stack.addresses().map(|a| Arc::new(Frame::bare(a)))),
        }
        let ours = if stack.user { 0 } else { self.frames.iter().take_while(|frame| is_ours(frame)).count() };
        &self.frames[ours..]
    }

    /// Appends `symbol+0x10` of an address. False, and nothing appended, where that is not known.
    pub fn symbol(&mut self, address: u64, user: bool, tgid: u32, out: &mut Vec<u8>) -> bool {
        let Some(symbols) = &mut self.symbols else { return false };
        let frame = symbols.one(space(user, tgid), address);
        if let Some(name) = &frame.symbol {
            symbol(name, frame.offset, out);
        }
        frame.symbol.is_some()
    }
}

/// Whether a frame is of a BPF program or of what calls one: innermost there is nothing else of the kind.
fn is_ours(frame: &Frame) -> bool {
    let called = |name: &str| {
        ["bpf_prog_", "bpf_trampoline_", "bpf_trace_run", "__bpf_trace_"].iter().any(|p| name.starts_with(p))
    };
    frame.module.as_deref() == Some("bpf") || frame.symbol.as_deref().is_some_and(called)
}

fn space(user: bool, tgid: u32) -> Space {
    if user { Space::Process(tgid) } else { Space::Kernel }
}

/// Appends a name and, where it is not 0, an offset.
fn symbol(name: &str, offset: u64, out: &mut Vec<u8>) {
    escape::text(name.as_bytes(), out);
    if offset > 0 {
        out.push(b'+');
        escape::address(offset, out);
    }
}

/// Appends the frames of all stacks of an event, a line each.
pub(super) fn lines(event: &Event<'_>, namer: &mut Namer, out: &mut Vec<u8>) {
    for (_, value) in event.fields() {
        let Value::Stack(stack) = value else { continue };
        stack_lines(&stack, event.wire.tgid, namer, out);
    }
}

/// Appends the frames of a stack, a line each.
pub(super) fn stack_lines(stack: &Stack<'_>, tgid: u32, namer: &mut Namer, out: &mut Vec<u8>) {
    for frame in namer.stack(stack, tgid) {
        for inlined in frame.inlined.iter().rev() {
            line(frame, Some(inlined), stack.user, out);
        }
        line(frame, None, stack.user, out);
    }
}

fn line(frame: &Frame, inlined: Option<&Inlined>, user: bool, out: &mut Vec<u8>) {
    out.push(b'\t');
    let at = out.len();
    let _ = write!(out, "{:x}", frame.address);
    let width = out.len() - at;
    fill_up(16 - width, b' ', out);
    out[at..].rotate_right(16 - width);
    let source = match (inlined, &frame.symbol) {
        (Some(inlined), _) => {
            out.push(b' ');
            symbol(&inlined.symbol, 0, out);
            &inlined.line
        }
        (None, Some(name)) => {
            out.push(b' ');
            symbol(name, frame.offset, out);
            &frame.line
        }
        (None, None) => &None,
    };
    if let Some(module) = &frame.module {
        out.extend_from_slice(if user { b" (" } else { b" [" });
        escape::text(module.as_bytes(), out);
        if frame.symbol.is_none() {
            out.push(b' ');
            if let Some(id) = &frame.build_id {
                escape::text(id.as_bytes(), out);
                out.push(b':');
            }
            escape::address(frame.offset, out);
        }
        out.push(if user { b')' } else { b']' });
    }
    if let Some(Line { file, line }) = source {
        out.push(b' ');
        escape::text(file.as_bytes(), out);
        if let Some(line) = line {
            let _ = write!(out, ":{line}");
        }
    }
    out.extend_from_slice(if inlined.is_some() { b" inlined\n" } else { b"\n" });
}

/// Appends frames as a JSON array, innermost first.
pub(super) fn json(frames: &[Arc<Frame>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, frame) in frames.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",{\"addr\":\"" } else { b"{\"addr\":\"" });
        escape::address(frame.address, out);
        out.push(b'"');
        if let Some(symbol) = &frame.symbol {
            word("symbol", symbol, out);
        }
        if frame.symbol.is_some() || frame.module.is_some() {
            out.extend_from_slice(b",\"offset\":");
            decimal(frame.offset, out);
        }
        if let Some(module) = &frame.module {
            word("module", module, out);
        }
        if let Some(id) = &frame.build_id {
            word("build_id", id, out);
        }
        source(&frame.line, out);
        if !frame.inlined.is_empty() {
            out.extend_from_slice(b",\"inlined\":[");
            for (i, inlined) in frame.inlined.iter().enumerate() {
                out.extend_from_slice(if i > 0 { b",{\"symbol\":" } else { b"{\"symbol\":" });
                escape::json(inlined.symbol.as_bytes(), out);
                source(&inlined.line, out);
                out.push(b'}');
            }
            out.push(b']');
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn word(key: &str, value: &str, out: &mut Vec<u8>) {
    let _ = write!(out, ",\"{key}\":");
    escape::json(value.as_bytes(), out);
}

fn source(line: &Option<Line>, out: &mut Vec<u8>) {
    let Some(Line { file, line }) = line else { return };
    word("file", file, out);
    if let Some(line) = line {
        out.extend_from_slice(b",\"line\":");
        decimal(*line, out);
    }
}

/// Appends the frames of a stack outermost first, each behind a `;`, kernel frames with `_[k]`, inlined ones
/// with `_[i]`: what flame graphs are drawn from.
pub(super) fn folded(frames: &[Arc<Frame>], user: bool, out: &mut String) {
    let mut push = |name: std::fmt::Arguments<'_>, mark: &str| {
        let start = out.len() + 1;
        let _ = write!(out, ";{name}{mark}");
        // What separates frames and counts cannot stand in a name.
        if out[start..].contains([';', '\n', '\r']) {
            let clean = out[start..].replace([';', '\n', '\r'], "_");
            out.truncate(start);
            out.push_str(&clean);
        }
    };
    for frame in frames.iter().rev() {
        let mark = if user { "" } else { "_[k]" };
        match (&frame.symbol, &frame.module) {
            (Some(name), _) => push(format_args!("{name}"), mark),
            (None, Some(module)) => {
                let file = module.rsplit('/').next().unwrap_or(module);
                push(format_args!("[{file}+{:#x}]", frame.offset), mark);
            }
            (None, None) => push(format_args!("{:#x}", frame.address), mark),
        }
        for inlined in &frame.inlined {
            push(format_args!("{}", inlined.symbol), "_[i]");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Arc<Frame>> {
        let line = |file: &str, line| Some(Line { file: file.into(), line });
        let inlined = |name: &str| Inlined { symbol: name.into(), line: line("a.c", Some(7)) };
        [
            Frame {
                symbol: Some("deflate".into()),
                offset: 0x3e0,
                module: Some("/usr/lib/libz.so.1".into()),
                line: line("/src/z\x1b.c", None),
                inlined: [inlined("outer"), inlined("inn;er")].into(),
                ..Frame::bare(0x7f3a_6c11_49e0)
            },
            Frame {
                module: Some("/usr/bin/gone".into()),
                build_id: Some("1f0c89".into()),
                offset: 0x21f3,
                ..Frame::bare(0x55d0_1c2a_91f3)
            },
            Frame::bare(0),
        ]
        .map(Arc::new)
        .into()
    }

    #[test]
    fn a_frame_is_a_line_and_so_is_what_was_inlined_there() {
        let mut out = Vec::new();
        for frame in &frames() {
            frame.inlined.iter().rev().for_each(|i| line(frame, Some(i), true, &mut out));
            line(frame, None, true, &mut out);
        }
        let kernel = Frame {
            symbol: Some("ext4_sync_file".into()),
            module: Some("ext4".into()),
            ..Frame::bare(0xffff_ffff_c000_1000)
        };
        line(&kernel, None, false, &mut out);
        let expected = "\t    7f3a6c1149e0 inn;er (/usr/lib/libz.so.1) a.c:7 inlined\n\
            \t    7f3a6c1149e0 outer (/usr/lib/libz.so.1) a.c:7 inlined\n\
            \t    7f3a6c1149e0 deflate+0x3e0 (/usr/lib/libz.so.1) /src/z\\x1b.c\n\
            \t    55d01c2a91f3 (/usr/bin/gone 1f0c89:0x21f3)\n\
            \t               0\n\
            \tffffffffc0001000 ext4_sync_file [ext4]\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_ran_our_program_is_left_out() {
        let named = |symbol: &str, module: Option<&str>| Frame {
            symbol: Some(symbol.into()),
            module: module.map(Into::into),
            ..Frame::bare(1)
        };
        assert!(
            is_ours(&named("bpf_prog_1234_fetch", Some("bpf"))) && is_ours(&named("bpf_trace_run2", None))
        );
        assert!(!is_ours(&named("vfs_write", None)) && !is_ours(&Frame::bare(1)));
    }

    #[test]
    fn a_frame_is_an_object_of_what_is_known() {
        let mut out = Vec::new();
        json(&frames(), &mut out);
        let expected = serde_json::json!([
            {"addr": "0x7f3a6c1149e0", "symbol": "deflate", "offset": 0x3e0, "module": "/usr/lib/libz.so.1",
             "file": "/src/z\x1b.c", "inlined": [{"symbol": "outer", "file": "a.c", "line": 7},
                                                 {"symbol": "inn;er", "file": "a.c", "line": 7}]},
            {"addr": "0x55d01c2a91f3", "offset": 0x21f3, "module": "/usr/bin/gone", "build_id": "1f0c89"},
            {"addr": "0x0"},
        ]);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).unwrap(), expected);
    }

    #[test]
    fn folded_frames_begin_with_the_outermost() {
        let mut out = String::from("dd");
        folded(&frames(), true, &mut out);
        folded(&[Arc::new(Frame { symbol: Some("vfs_write".into()), ..Frame::bare(1) })], false, &mut out);
        assert_eq!(out, "dd;0x0;[gone+0x21f3];deflate;outer_[i];inn_er_[i];vfs_write_[k]");
    }
}
