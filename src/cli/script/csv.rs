//! Samples as comma-separated values (RFC 4180), the columns' names first.

use super::{
    Sampled,
    text::{Column, number},
};

/// The CSV form.
pub struct Csv {
    columns: Vec<(&'static str, Column)>,
    trace: Vec<u8>,
    begun: bool,
}

impl Csv {
    pub fn new(columns: Vec<(&'static str, Column)>) -> Csv {
        Csv { columns, trace: Vec::new(), begun: false }
    }

    /// Appends a sample's line. What its event does not carry is empty.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
            out.extend_from_slice(names.join(",").as_bytes());
            out.push(b'\n');
        }
        let sample = &sampled.sample;
        for (i, (_, column)) in self.columns.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let id = |id: Option<u32>| id.map(u64::from);
            let value = match column {
                Column::Comm => {
                    quoted(sampled.comm, out);
                    continue;
                }
                Column::Event => {
                    quoted(sampled.event.name.as_bytes(), out);
                    continue;
                }
                Column::Trace => {
                    self.trace.clear();
                    sampled.trace(&mut self.trace);
                    quoted(&self.trace, out);
                    continue;
                }
                Column::Pid => id(sample.tgid),
                Column::Tid => id(sample.pid),
                Column::Cpu => id(sample.cpu),
                Column::Time => sample.time,
                Column::Period => sample.period,
                Column::Ip => sample.ip,
                Column::Addr => sample.addr,
            };
            if let Some(value) = value {
                number(value, 1, b' ', out);
            }
        }
        out.push(b'\n');
    }
}

/// A text in quotation marks where it needs them; control characters as in other forms.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    let plain = !text.iter().any(|b| matches!(b, b',' | b'"'));
    if plain {
        return super::escape(text, out);
    }
    out.push(b'"');
    let start = out.len();
    super::escape(text, out);
    let escaped = out.split_off(start);
    for byte in escaped {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_are_quoted_where_they_must_be() {
        let told = |text: &[u8]| {
            let mut out = Vec::new();
            super::quoted(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(told(b"plain text"), "plain text");
        assert_eq!(told(b"a,b \"c\"\n"), "\"a,b \"\"c\"\"\\x0a\"");
    }
}
