//! The names of tasks, as a recording's COMM and FORK records tell them.

use std::collections::HashMap;

use tracer::perf_data::{
    kind,
    read::Record,
    records::{Comm, Task},
};

/// Names by thread. One that was never named is `:TID`, as perf has it.
pub struct Tasks {
    names: HashMap<u32, Box<[u8]>>,
    /// The last that was asked for: samples of one thread come in rows.
    last: Option<(u32, Box<[u8]>)>,
}

impl Tasks {
    pub fn new() -> Tasks {
        Tasks { names: HashMap::from([(0, b"swapper"[..].into())]), last: None }
    }

    /// Takes what a record tells of tasks.
    pub fn take(&mut self, record: &Record<'_>) {
        match record.kind {
            kind::COMM => {
                if let Some(comm) = Comm::parse(record.body, record.endian) {
                    self.names.insert(comm.tid, comm.comm.into());
                    self.last = None;
                }
            }
            kind::FORK => {
                let Some(task) = Task::parse(record.body, record.endian) else { return };
                match self.names.get(&task.ptid).cloned() {
                    Some(name) => self.names.insert(task.tid, name),
                    None => self.names.remove(&task.tid),
                };
                self.last = None;
            }
            _ => {}
        }
    }

    /// The name of a thread.
    pub fn name(&mut self, tid: u32) -> &[u8] {
        if self.last.as_ref().is_none_or(|(last, _)| *last != tid) {
            let name = self.names.get(&tid).cloned();
            // As a signed number: threads of no process are -1.
            let name = name.unwrap_or_else(|| format!(":{}", tid as i32).into_bytes().into());
            self.last = Some((tid, name));
        }
        self.last.as_ref().map_or(&[], |(_, name)| name)
    }
}
