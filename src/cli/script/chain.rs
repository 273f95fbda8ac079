//! Addresses by their names as `perf script` shows them: on the line, or beneath it one for each frame of a call chain.
//!
//! ```text
//! dd    14/14    [001] 42503.534332078: syscalls:sys_enter_write: fd: 0x00000001, …
//!         f8350 __GI___libc_write+0x10 (/usr/lib/x86_64-linux-gnu/libc.so.6)
//! ```
//!
//! In a call chain the address of a file is its place there, of the kernel and of what is no file it is the address.

use std::io::Write as _;

use tracer::symbol::{Frame, Space};

use super::{
    Sampled,
    columns::{Column, Columns},
    escape::escape,
    names::{Names, chain, space},
};

/// The most frames of a call chain that are shown (perf's `PERF_MAX_STACK_DEPTH`).
const MOST: usize = 127;

/// Appends the frames of a sample's call chain behind a line's end; where its event has none, its own address behind a
/// blank.
pub fn append(sampled: &Sampled<'_>, columns: &Columns, out: &mut Vec<u8>) {
    let tgid = sampled.sample.tgid.unwrap_or(0);
    let names = sampled.names;
    let Some(words) = sampled.sample.callchain else {
        let Some(ip) = sampled.sample.ip else { return };
        let space = space(sampled.misc, tgid);
        let _ = write!(out, " {ip:16x}");
        let frame = names.now().one(space, ip);
        return name(names, space, &frame, columns, out);
    };
    out.push(b'\n');
    for (user, address) in chain(&words).take(MOST) {
        let space = if user { Space::Process(tgid) } else { Space::Kernel };
        let _ = write!(out, "\t{:16x}", names.place(space, address));
        // As perf does, not as of the call before it.
        let frame = names.now().one(space, address);
        name(names, space, &frame, columns, out);
        out.push(b'\n');
    }
}

fn name(names: &Names, space: Space, frame: &Frame, columns: &Columns, out: &mut Vec<u8>) {
    if columns.has(Column::Sym) {
        out.push(b' ');
        escape(frame.symbol.as_deref().unwrap_or("[unknown]").as_bytes(), out);
        if columns.has(Column::SymOff) && frame.symbol.is_some() {
            let _ = write!(out, "+{:#x}", frame.offset);
        }
    }
    if columns.has(Column::Dso) {
        out.extend_from_slice(b" (");
        escape(names.object(space, frame).as_bytes(), out);
        out.push(b')');
    }
}
