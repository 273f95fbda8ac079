//! Names for addresses of the kernel, where the recording is of the kernel that runs.

use std::cell::RefCell;

use tracer::{
    perf_data::{kind, read::Record, records::Mmap},
    symbol::{Space, Symbols},
};

/// Names addresses, or does not.
#[derive(Default)]
pub struct Kernel {
    symbols: Option<RefCell<Symbols>>,
}

impl Kernel {
    /// Takes the record that says where the recording's kernel lies: only if the one that runs lies there too are its
    /// names the right ones.
    pub fn take(&mut self, record: &Record<'_>) {
        if record.kind != kind::MMAP || self.symbols.is_some() {
            return;
        }
        let Some(map) = Mmap::parse(record.body, record.endian) else { return };
        let Some(symbol) = map.file.strip_prefix(b"[kernel.kallsyms]") else { return };
        if map.pid == u32::MAX && address_of(symbol) == Some(map.pgoff) {
            self.symbols = Some(RefCell::new(Symbols::new(true, false)));
        }
    }

    /// The name of an address, and how far behind its symbol it lies.
    pub fn name(&self, address: u64) -> Option<(String, u64)> {
        let frame = self.symbols.as_ref()?.borrow_mut().one(Space::Kernel, address);
        Some((frame.symbol.as_deref()?.to_owned(), frame.offset))
    }
}

/// Where the running kernel has a symbol; 0 is told to those without the right to know.
fn address_of(symbol: &[u8]) -> Option<u64> {
    let table = std::fs::read("/proc/kallsyms").ok()?;
    let line = table
        .split(|b| *b == b'\n')
        .find(|line| line.split(|b| *b == b' ').nth(2).is_some_and(|name| name == symbol))?;
    let address = std::str::from_utf8(line.split(|b| *b == b' ').next()?).ok()?;
    u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)
}
