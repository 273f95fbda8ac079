//! What a session says before its first event, owned.

use crate::{
    schema::Schema,
    sink::{Clock, Header, Probe},
};

/// A [`Header`] that is owned, shared by all batches.
#[derive(Clone, Debug, Default)]
pub struct Start {
    host: String,
    release: String,
    boot_id: String,
    clock: Clock,
    schemas: Vec<Schema>,
    /// How each was attached, and whether its events open with our head.
    attached: Vec<(String, bool)>,
}

impl Start {
    /// A copy of a header.
    pub fn new(header: &Header<'_>) -> Start {
        let probes = header.probes;
        Start {
            host: header.host.into(),
            release: header.release.into(),
            boot_id: header.boot_id.into(),
            clock: header.clock,
            schemas: probes.iter().map(|probe| probe.schema.clone()).collect(),
            attached: probes.iter().map(|probe| (probe.attached.into(), probe.headed)).collect(),
        }
    }

    /// What events are: an event's is at its [`Wire::probe`](crate::event::Wire::probe) - 1.
    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// Both clocks at one moment, to tell wall time by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Lends the header, for a [`Sink`](crate::sink::Sink) to be told it.
    pub fn with<T>(&self, f: impl FnOnce(&Header<'_>) -> T) -> T {
        let each = self.schemas.iter().zip(&self.attached);
        let probes: Vec<Probe<'_>> =
            each.map(|(schema, (attached, headed))| Probe { schema, attached, headed: *headed }).collect();
        let Start { host, release, boot_id, clock, .. } = self;
        f(&Header { host, release, boot_id, clock: *clock, probes: &probes })
    }
}
