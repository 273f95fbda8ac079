//! What TRACING_DATA holds: how the raw bytes of tracepoints lie, as `format` texts by system and name.
//!
//! ```text
//!   17 08 44 "tracing" version\0 │ u8 big-endian? │ u8 sizeof(long) │ u32 page size
//!   "header_page\0" u64 length, text │ "header_event\0" u64 length, text
//!   u32 number of ftrace's formats, each: u64 length, text
//!   u32 number of systems, each: name\0, u32 number of formats, each: u64 length, text
//!   u32 length, kallsyms │ u32 length, printk formats │ from version 0.6 on: u64 length, saved command lines
//! ```

use super::{Endian, Fields};

/// How it begins.
const MAGIC: [u8; 10] = *b"\x17\x08\x44tracing";

/// What `perf` reads a ring page's head by; no record of a perf.data file is in such a page.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

/// What tells the kinds of ftrace's own records.
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

/// A system of tracepoints: its name, and the `format` text of each.
pub type System = (Vec<u8>, Vec<Vec<u8>>);

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingData {
    /// The byte order of the raw bytes, and of this.
    pub endian: Endian,
    /// Its version, such as `0.6`.
    pub version: Vec<u8>,
    /// Bytes of a `long`.
    pub long_size: u8,
    /// Bytes of a page; perf takes no 0.
    pub page_size: u32,
    /// How a page of ftrace's ring begins.
    pub header_page: Vec<u8>,
    /// How a record in it begins.
    pub header_event: Vec<u8>,
    /// The formats of ftrace's own records.
    pub ftrace: Vec<Vec<u8>>,
    /// The formats of all others.
    pub systems: Vec<System>,
    /// `/proc/kallsyms`; perf reads none from a pipe.
    pub kallsyms: Vec<u8>,
    /// The addresses of formats of `trace_printk`.
    pub printk: Vec<u8>,
    /// Names of tasks; perf uses them no more.
    pub cmdlines: Vec<u8>,
}

impl TracingData {
    /// Formats and nothing else that is of use.
    pub fn of(endian: Endian, systems: Vec<System>) -> TracingData {
        TracingData {
            endian,
            version: b"0.6".to_vec(),
            long_size: 8,
            page_size: 4096,
            header_page: HEADER_PAGE.into(),
            header_event: HEADER_EVENT.into(),
            ftrace: Vec::new(),
            systems,
            kallsyms: Vec::new(),
            printk: Vec::new(),
            cmdlines: Vec::new(),
        }
    }

    /// Every format: its system's name, its own, and its text. A text that does not begin with its name has none.
    pub fn formats(&self) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
        let of_ftrace = self.ftrace.iter().map(|text| (&b"ftrace"[..], text));
        let of_systems = self.systems.iter().flat_map(|(name, all)| all.iter().map(|text| (&name[..], text)));
        of_ftrace.chain(of_systems).map(|(system, text)| (system, name_of(text), &text[..]))
    }

    /// Reads it; `None` where it is none, or not whole.
    pub fn parse(bytes: &[u8]) -> Option<TracingData> {
        TracingData::parse_prefix(bytes).map(|(data, _)| data)
    }

    /// Reads what `bytes` begin with, and says how many bytes it is.
    pub fn parse_prefix(bytes: &[u8]) -> Option<(TracingData, usize)> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let end = rest.iter().position(|b| *b == 0)?;
        let version = rest[..end].to_vec();
        let endian = match rest.get(end + 1)? {
            0 => Endian::Little,
            1 => Endian::Big,
            _ => return None,
        };
        let f = &mut Fields::new(&rest[end + 2..], endian);
        let (long_size, page_size) = (f.u8()?, f.u32()?);
        let header_page = headed(f, b"header_page")?;
        let header_event = headed(f, b"header_event")?;
        let ftrace = texts(f)?;
        let count = f.u32()?;
        let system = |_| {
            f.rest().contains(&0).then_some(())?;
            let name = f.c_string().to_vec();
            Some((name, texts(f)?))
        };
        let systems = (0..count).map(system).collect::<Option<_>>()?;
        let (kallsyms, printk) = (short(f)?, short(f)?);
        let cmdlines = if has_cmdlines(&version) { long(f)? } else { Vec::new() };
        let size = bytes.len() - f.rest().len();
        let data = TracingData {
            endian,
            version,
            long_size,
            page_size,
            header_page,
            header_event,
            ftrace,
            systems,
            kallsyms,
            printk,
            cmdlines,
        };
        Some((data, size))
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let endian = self.endian;
        let long = |text: &[u8], out: &mut Vec<u8>| {
            endian.put_u64(out, text.len() as u64);
            out.extend_from_slice(text);
        };
        let all = |texts: &[Vec<u8>], out: &mut Vec<u8>| {
            endian.put_u32(out, texts.len() as u32);
            texts.iter().for_each(|text| long(text, out));
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version);
        out.extend_from_slice(&[0, u8::from(endian == Endian::Big), self.long_size]);
        endian.put_u32(out, self.page_size);
        out.extend_from_slice(b"header_page\0");
        long(&self.header_page, out);
        out.extend_from_slice(b"header_event\0");
        long(&self.header_event, out);
        all(&self.ftrace, out);
        endian.put_u32(out, self.systems.len() as u32);
        for (name, formats) in &self.systems {
            out.extend_from_slice(name);
            out.push(0);
            all(formats, out);
        }
        for text in [&self.kallsyms, &self.printk] {
            endian.put_u32(out, text.len() as u32);
            out.extend_from_slice(text);
        }
        if has_cmdlines(&self.version) {
            long(&self.cmdlines, out);
        }
    }
}

/// Whether what is of a version has saved command lines: from 0.6 on.
fn has_cmdlines(version: &[u8]) -> bool {
    let text = str::from_utf8(version).unwrap_or_default();
    let (major, minor) = text.split_once('.').unwrap_or((text, ""));
    let number = |digits: &str| digits.parse::<u32>().unwrap_or(0);
    (number(major), number(minor)) >= (0, 6)
}

/// The name in the first line of a `format` text.
fn name_of(text: &[u8]) -> &[u8] {
    let first = text.split(|b| *b == b'\n').next().unwrap_or_default();
    first.strip_prefix(b"name: ").unwrap_or_default()
}

fn headed(f: &mut Fields<'_>, word: &[u8]) -> Option<Vec<u8>> {
    (f.c_string() == word).then(|| long(f))?
}

fn long(f: &mut Fields<'_>) -> Option<Vec<u8>> {
    let len = usize::try_from(f.u64()?).ok()?;
    f.bytes(len).map(<[u8]>::to_vec)
}

fn short(f: &mut Fields<'_>) -> Option<Vec<u8>> {
    let len = f.u32()? as usize;
    f.bytes(len).map(<[u8]>::to_vec)
}

fn texts(f: &mut Fields<'_>) -> Option<Vec<Vec<u8>>> {
    let count = f.u32()?;
    (0..count).map(|_| long(f)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(endian: Endian) -> TracingData {
        let systems = vec![
            (b"tracer".to_vec(), vec![b"name: a\nID: 1\n".to_vec(), b"name: b\n".to_vec()]),
            (b"sched".to_vec(), vec![b"ID: 3\n".to_vec()]),
        ];
        TracingData { ftrace: vec![b"name: f\n".to_vec()], ..TracingData::of(endian, systems) }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for endian in [Endian::Little, Endian::Big] {
            for version in ["0.6", "0.5", "1.0"] {
                let data = TracingData { version: version.into(), ..some(endian) };
                let mut out = Vec::new();
                data.write(&mut out);
                let len = out.len();
                assert_eq!(TracingData::parse_prefix(&out), Some((data.clone(), len)));
                out.extend_from_slice(&[0; 7]);
                assert_eq!(TracingData::parse_prefix(&out), Some((data, len)), "padding is none of it");
                for cut in 0..len {
                    assert_eq!(TracingData::parse(&out[..cut]), None);
                }
            }
        }
    }

    #[test]
    fn formats_by_system_and_name() {
        let data = some(Endian::Little);
        let names: Vec<_> = data.formats().map(|(system, name, _)| (system, name)).collect();
        assert_eq!(
            names,
            [(&b"ftrace"[..], &b"f"[..]), (b"tracer", b"a"), (b"tracer", b"b"), (b"sched", b"")]
        );
    }
}
