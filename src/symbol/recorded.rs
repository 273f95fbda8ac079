//! Addresses of a recording: the kernel's while it is the one that runs, those of files while they are still the same.
//!
//! **Invariants.** No file is opened that is none, such as a device or a pipe, and none whose build id is not that of
//! the recording, where it tells one.

use super::{Find, Frame, Maps, Space, kernel::Table};

/// The module that `/proc/kallsyms` has BPF programs in.
const PROGRAM: &str = "bpf";

/// Names addresses of a recording.
pub(super) struct Recorded {
    maps: Maps,
    kernel: Option<Table>,
    files: Option<Box<dyn Find>>,
}

impl Recorded {
    pub fn new(maps: &Maps) -> Recorded {
        #[cfg(feature = "symbol")]
        let files = super::files::Files::start(maps).map(|f| Box::new(f) as Box<dyn Find>);
        #[cfg(not(feature = "symbol"))]
        let files = None;
        Recorded { maps: maps.clone(), kernel: None, files }
    }

    /// What the addresses of a space mean is told by this number.
    pub fn identity(&self, space: Space) -> u64 {
        self.maps.state(match space {
            Space::Kernel => None,
            Space::Process(tgid) => Some(tgid),
        })
    }

    /// A frame for each address.
    pub fn find(&mut self, space: Space, addresses: &[u64]) -> Vec<Frame> {
        match space {
            Space::Kernel => self.kernel(addresses),
            Space::Process(tgid) => self.user(tgid, addresses),
        }
    }

    fn kernel(&mut self, addresses: &[u64]) -> Vec<Frame> {
        if self.kernel.is_none() && self.maps.is_running_kernel() {
            self.kernel = Table::read();
        }
        let mut found = match &mut self.kernel {
            Some(table) => table.find(addresses),
            None => addresses.iter().map(|a| Frame::bare(*a)).collect(),
        };
        found.iter_mut().for_each(|frame| self.correct(frame));
        found
    }

    /// What is loaded into the kernel beyond itself is what the recording says, not what is there now.
    fn correct(&self, frame: &mut Frame) {
        let mapped = self.maps.at(None, frame.address);
        match mapped {
            // A BPF program, by its own name.
            Some(program) if !program.path.starts_with('[') => {
                *frame = Frame {
                    symbol: Some((*program.path).into()),
                    offset: program.place(frame.address),
                    module: Some(PROGRAM.into()),
                    ..Frame::bare(frame.address)
                };
            }
            _ if frame.module.as_deref() == Some(PROGRAM) => *frame = Frame::bare(frame.address),
            // Of the kernel itself nothing more is said.
            Some(module) if frame.symbol.is_none() => {
                let name = module.path.strip_prefix('[').and_then(|path| path.strip_suffix(']'));
                frame.module = name.filter(|name| *name != "kernel.kallsyms").map(Into::into);
            }
            _ => {}
        }
    }

    fn user(&mut self, tgid: u32, addresses: &[u64]) -> Vec<Frame> {
        if let Some(files) = &mut self.files {
            return files.find(tgid, self.maps.state(Some(tgid)), addresses);
        }
        let frame = |address: &u64| match self.maps.at(Some(tgid), *address) {
            Some(mapped) => mapped.frame(*address),
            None => Frame::bare(*address),
        };
        addresses.iter().map(frame).collect()
    }
}
