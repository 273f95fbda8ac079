//! The names in an event's line, escaped once: those of a probe are the same in all of its events.

use super::Header;
use crate::{event::Event, schema::Schema};

/// The names of each probe's events, by the probe's place in the header.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    probes: Vec<Labelled>,
}

/// The names of one probe's events.
#[derive(Clone, Debug, Default)]
pub(super) struct Labelled {
    /// That of the event.
    pub event: Vec<u8>,
    /// Those of the fields, in the schema's order.
    pub fields: Vec<Vec<u8>>,
}

impl Labelled {
    /// As `event` and `field` write them; a field is told its place.
    pub fn new(
        schema: &Schema,
        event: impl Fn(&[u8], &mut Vec<u8>),
        field: impl Fn(usize, &[u8], &mut Vec<u8>),
    ) -> Labelled {
        let mut labelled = Labelled::default();
        event(schema.name.as_bytes(), &mut labelled.event);
        for (i, of) in schema.fields.iter().enumerate() {
            let mut label = Vec::new();
            field(i, of.name.as_bytes(), &mut label);
            labelled.fields.push(label);
        }
        labelled
    }
}

impl Labels {
    /// Of all probes of a header.
    pub fn new(header: &Header<'_>, make: impl Fn(&Schema) -> Labelled) -> Labels {
        Labels { probes: header.probes.iter().map(|probe| make(probe.schema)).collect() }
    }

    /// Those of an event; `None` where its probe is not one of the header's.
    #[inline]
    pub fn of(&self, event: &Event<'_>) -> Option<&Labelled> {
        let of = self.probes.get(usize::from(event.wire.probe).wrapping_sub(1))?;
        (of.fields.len() == event.schema.fields.len()).then_some(of)
    }
}
