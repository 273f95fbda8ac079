//! Samples as comma-separated values (RFC 4180), the columns' names first.

use std::io::Write as _;

use tracer::{
    schema::Value,
    sink::{escape::hex_byte, shown_instead},
};

use super::{
    Sampled,
    columns::{Column, Columns},
    names::space,
    text::number,
};

/// The CSV form.
pub struct Csv {
    columns: Columns,
    value: Vec<u8>,
    scratch: Vec<u8>,
    begun: bool,
}

impl Csv {
    pub fn new(columns: Columns) -> Csv {
        Csv { columns, value: Vec::new(), scratch: Vec::new(), begun: false }
    }

    /// Appends a sample's line. What its event does not carry is empty. False where its raw bytes are too few for the
    /// fields that are asked for.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) -> bool {
        let Csv { columns, value, scratch, begun } = self;
        if !std::mem::replace(begun, true) {
            let names: Vec<&str> = columns.all().map(|(name, _)| name).collect();
            quoted_all(&names, out);
        }
        let fields = match columns.has(Column::Fields) {
            true => match fields(&columns.fields, sampled, scratch) {
                Some(fields) => fields,
                None => return false,
            },
            false => Vec::new(),
        };
        let mut fields = fields.iter();
        let sample = &sampled.sample;
        let frame = match (columns.has(Column::Sym) || columns.has(Column::Dso), sample.ip) {
            (true, Some(ip)) => {
                let space = space(sampled.misc, sample.tgid.unwrap_or(0));
                Some((space, sampled.names.now().one(space, ip)))
            }
            _ => None,
        };
        for (i, (_, column)) in columns.all().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let id = |id: Option<u32>| id.map(u64::from);
            let n = match column {
                Column::Comm => {
                    quoted(sampled.comm, out);
                    None
                }
                Column::Event => {
                    quoted(sampled.event.name.as_bytes(), out);
                    None
                }
                Column::Fields => {
                    fields.next().into_iter().for_each(|value| quoted(value, out));
                    None
                }
                Column::Trace => {
                    value.clear();
                    sampled.trace(scratch, value);
                    quoted(value, out);
                    None
                }
                Column::Sym => {
                    let name = frame.as_ref().and_then(|(_, frame)| frame.symbol.as_deref());
                    quoted(name.unwrap_or_default().as_bytes(), out);
                    None
                }
                Column::Dso => {
                    if let Some((space, frame)) = &frame {
                        quoted(sampled.names.object(*space, frame).as_bytes(), out);
                    }
                    None
                }
                Column::SymOff => frame.as_ref().filter(|(_, f)| f.symbol.is_some()).map(|(_, f)| f.offset),
                Column::Pid => id(sample.tgid),
                Column::Tid => id(sample.pid),
                Column::Cpu => id(sample.cpu),
                Column::Time => sample.time,
                Column::Period => sample.period,
                Column::Ip => sample.ip,
                Column::Addr => sample.addr,
            };
            if let Some(n) = n {
                number(n, 1, b' ', out);
            }
        }
        out.push(b'\n');
        true
    }
}

/// The values of an event's fields by their names, empty where it has none; `None` where its raw bytes are too few.
fn fields(names: &[String], sampled: &Sampled<'_>, scratch: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let event = sampled.shape().event(sampled, 0, scratch)?;
    let one = |name: &String| {
        let mut out = Vec::new();
        let Some((field, value)) = event.fields().find(|(field, _)| field.name == *name) else { return out };
        if shown_instead(field, &value, &mut out) {
            return out;
        }
        let _ = match value {
            Value::Unsigned(n) => write!(out, "{n}"),
            Value::Signed(n) => write!(out, "{n}"),
            Value::Bool(truth) => write!(out, "{truth}"),
            Value::Pointer(address) => write!(out, "{address:#x}"),
            Value::Text(text) => out.write_all(&text.to_contiguous()),
            Value::Bytes(bytes) => {
                bytes.bytes().for_each(|b| hex_byte(b, &mut out));
                Ok(())
            }
            Value::Stack(stack) => {
                let words: Vec<String> = stack.addresses().map(|a| format!("{a:#x}")).collect();
                out.write_all(words.join(" ").as_bytes())
            }
            _ => Ok(()),
        };
        out
    };
    Some(names.iter().map(one).collect())
}

fn quoted_all(names: &[&str], out: &mut Vec<u8>) {
    for (i, name) in names.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        quoted(name.as_bytes(), out);
    }
    out.push(b'\n');
}

/// A text in quotation marks where it needs them; control characters as in other forms.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    let plain = !text.iter().any(|b| matches!(b, b',' | b'"'));
    if plain {
        return super::escape::escape(text, out);
    }
    out.push(b'"');
    let start = out.len();
    super::escape::escape(text, out);
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
