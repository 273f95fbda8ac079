//! Samples as the NDJSON of `tracer run`.

use std::collections::HashMap;

use tracer::{
    event::{Cause, Gap, NO_CPU},
    perf_data::{Feature, feature::id, read::Info},
    schema::Schema,
    sink::{Encode as _, Header, Probe, json, perf_data},
    symbol::Symbols,
};

use super::{
    Sampled,
    columns::{Column, Columns},
    events::Catalogue,
    samples::{Shape, clock},
};

/// The NDJSON form.
pub struct Json {
    encode: json::Json,
    scratch: Vec<u8>,
    begun: bool,
    /// By event, which of the header's probes its first shape is.
    places: Vec<usize>,
    /// By CPU: how many samples there were, and the time of the last.
    lanes: HashMap<u32, (u32, Option<u64>)>,
    events: u64,
    missing: u64,
}

impl Json {
    /// Lines of these columns, all of an event's keys where none was asked for.
    pub fn new(columns: &Columns, symbols: Symbols) -> Json {
        let encode = json::Json::default().with_symbols(symbols);
        let encode = if columns.is_usual() { encode } else { encode.only(keys(columns)) };
        Json {
            encode,
            scratch: Vec::new(),
            begun: false,
            places: Vec::new(),
            lanes: HashMap::new(),
            events: 0,
            missing: 0,
        }
    }

    /// Appends the header, once what it says is known.
    pub fn begin(&mut self, info: &Info, catalogue: &mut Catalogue, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let text = |id| match info.feature(id) {
            Some(Feature::Text(_, text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let (host, release) = (text(id::HOSTNAME), text(id::OSRELEASE));
        let version = text(id::VERSION);
        let boot_id = perf_data::boot_of(&version).unwrap_or_default();
        let mut probes: Vec<(Schema, bool)> = Vec::new();
        for index in 0..info.events.all().len() {
            self.places.push(probes.len());
            let shapes = catalogue.get(info, index).map(|event| event.shapes.iter());
            let probe = |shape: &Shape| (shape.schema.clone(), shape.is_headed());
            probes.extend(shapes.into_iter().flatten().map(probe));
        }
        let probes: Vec<Probe<'_>> = probes
            .iter()
            .map(|(schema, headed)| Probe { schema, attached: "a recording", headed: *headed })
            .collect();
        let header = Header { host: &host, release: &release, boot_id, clock: clock(info), probes: &probes };
        self.encode.header(&header, out);
    }

    /// Appends a sample's line; false where its raw bytes are too few for their own format.
    pub fn sample(&mut self, sampled: &Sampled<'_>, out: &mut Vec<u8>) -> bool {
        let lane = self.lanes.entry(sampled.sample.cpu.unwrap_or(NO_CPU)).or_default();
        let Some(mut event) = sampled.shape().event(sampled, lane.0, &mut self.scratch) else { return false };
        *lane = (lane.0.wrapping_add(1), sampled.sample.time);
        // Its number was another's in another stream.
        let place = self.places.get(sampled.index).map(|first| first + sampled.which() + 1);
        event.wire.probe = place.and_then(|place| u16::try_from(place).ok()).unwrap_or(0);
        self.events += 1;
        self.encode.event(&event, out);
        true
    }

    /// Appends a loss.
    pub fn lost(&mut self, cpu: u32, count: Option<u64>, time: Option<u64>, out: &mut Vec<u8>) {
        let after = self.lanes.get(&cpu).and_then(|(_, last)| *last);
        self.missing += count.unwrap_or(0);
        let gap = Gap { cpu, count, cause: Cause::Lost, seq: None, level: None, after, before: time };
        self.encode.gap(&gap, out);
    }

    /// Appends the end: a recording has no ledger, so that nothing says whether its books balance.
    pub fn end(&self, out: &mut Vec<u8>) {
        let Json { events, missing, .. } = self;
        let line =
            format!("{{\"type\":\"footer\",\"balanced\":null,\"events\":{events},\"missing\":{missing}}}\n");
        out.extend_from_slice(line.as_bytes());
    }
}

/// The keys of what columns name, as `run` has them.
fn keys(columns: &Columns) -> json::Keys {
    let mut keys = json::Keys::default();
    for (name, column) in columns.all() {
        match column {
            Column::Trace => keys.args = true,
            // Its frames tell the rest.
            Column::Ip => keys.fields.extend(["ip", "kstack", "ustack"].map(str::to_owned)),
            Column::Sym | Column::SymOff | Column::Dso => {}
            Column::Fields | Column::Period | Column::Addr => keys.fields.push(name.to_owned()),
            _ => keys.own.push(name.to_owned()),
        }
    }
    keys
}
