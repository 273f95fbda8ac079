//! Events of which some keys are wanted and no more.

use super::{Json, cpu, escape, is_name, key};
use crate::{
    event::{Carries, Event},
    schema::Value,
    sink::number::decimal,
};

/// The keys of events that are written; `type` always is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Of `cpu`, `time`, `seq`, `event`, `pid`, `tid`, `uid`, `cgroup` and `comm`.
    pub own: Vec<String>,
    /// All fields.
    pub args: bool,
    /// Fields by their names, those of `args`.
    pub fields: Vec<String>,
}

/// Appends the line of an event. What it does not carry is null, and a field that it does not have is left out.
pub(super) fn event(json: &mut Json, event: &Event<'_>, out: &mut Vec<u8>) {
    let Some(keys) = json.only.take() else { return };
    key(b"{\"type\":\"event\"", out);
    let wire = &event.wire;
    let (ids, all) = (wire.carries != Carries::Nothing, wire.carries == Carries::All);
    let number = |known: bool, n: u64, out: &mut Vec<u8>| match known {
        true => decimal(n, out),
        false => key(b"null", out),
    };
    for own in &keys.own {
        key(b",", out);
        escape::json(own.as_bytes(), out);
        out.push(b':');
        match &**own {
            "cpu" => cpu(event.cpu, out),
            "time" => json.options.optional(event.time, out),
            "seq" => decimal(wire.seq, out),
            "event" => _ = escape::json(event.schema.name.as_bytes(), out),
            "pid" => number(ids, wire.tgid.into(), out),
            "tid" => number(ids, wire.pid.into(), out),
            "uid" => number(all, wire.uid.into(), out),
            "cgroup" => json.options.optional(all.then_some(wire.cgroup), out),
            "comm" if all || wire.carries == Carries::Task => _ = escape::json(wire.comm(), out),
            _ => key(b"null", out),
        }
    }
    if keys.args || !keys.fields.is_empty() {
        args(json, event, &keys, out);
    }
    key(b"}\n", out);
    json.only = Some(keys);
}

fn args(json: &mut Json, event: &Event<'_>, keys: &Keys, out: &mut Vec<u8>) {
    let wanted = || event.fields().filter(|(f, _)| keys.args || keys.fields.contains(&f.name));
    key(b",\"args\":{", out);
    for (i, (field, value)) in wanted().enumerate() {
        key(if i > 0 { b"," } else { b"" }, out);
        escape::json(field.name.as_bytes(), out);
        out.push(b':');
        let Json { options, namer, .. } = json;
        options.value(field, &value, namer, event.wire.tgid, out);
    }
    out.push(b'}');
    if wanted().any(|(_, value)| matches!(value, Value::Fault)) {
        Json::faults(wanted(), out);
    }
    if wanted().any(|(field, _)| is_name(&field.show)) {
        json.shown(wanted(), event.wire.tgid, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Wire,
        record::Body,
        schema::{Field, Kind, Schema},
        sink::Encode as _,
    };

    #[test]
    fn what_is_asked_for_is_all_there_is() {
        let field = |name: &str, offset| Field::new(name, "u32", Kind::Unsigned(4), offset);
        let mut ret = field("ret", 4);
        ret.fault = Some((8, 3));
        let schema = Schema { name: "e".into(), spec: "e".into(), fields: vec![field("count", 0), ret] };
        let mut raw = [0; 16];
        raw[0] = 7;
        raw[8] = 1 << 3;
        let wire = Wire::foreign(0, 0, 5, Some((10, 11)));
        let event =
            Event { cpu: 2, time: Some(99), wire, schema: &schema, raw: Body::new(&raw), late: false };
        let told = |own: &[&str], args, fields: &[&str]| {
            let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
            let mut out = Vec::new();
            Json::default().only(Keys { own: all(own), args, fields: all(fields) }).event(&event, &mut out);
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        assert_eq!(
            told(&["time", "comm", "tid"], false, &["count"]),
            serde_json::json!({"type": "event", "time": 99, "comm": null, "tid": 11, "args": {"count": 7}})
        );
        assert_eq!(
            told(&[], true, &[]),
            serde_json::json!({"type": "event", "args": {"count": 7, "ret": null}, "faults": ["ret"]})
        );
        assert_eq!(told(&["cpu"], false, &[]), serde_json::json!({"type": "event", "cpu": 2}));
        assert_eq!(told(&[], false, &["none"]), serde_json::json!({"type": "event", "args": {}}));
    }
}
