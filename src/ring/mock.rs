//! The kernel's side of a ring, over heap memory: for tests, benches and fuzzers.
//!
//! A [`Producer`] writes records as `__perf_output_begin` (kernel/events/ring_buffer.c) and
//! `perf_output_sample` (kernel/events/core.c) do, from any thread. A [`Mock`] has both sides, so it can also do
//! what a kernel should not: run over unread records, or publish a head that cannot be.

use super::{forward::Forward, heap::Writer, mapping::Mapping};
use crate::record::{Header, SampleFormat, kind, sample_type};

/// What a sample carries beside its raw bytes; what the format leaves out is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Fields {
    pub id: u64,
    pub stream_id: u64,
    pub ip: u64,
    pub tgid: u32,
    pub pid: u32,
    pub time: u64,
    pub addr: u64,
    pub cpu: u32,
    pub period: u64,
    pub callchain: Vec<u64>,
}

/// The ring had no room: what a BPF program sees as ENOSPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The kernel's side of a ring.
pub struct Producer {
    writer: Writer,
    format: SampleFormat,
    fields: Fields,
    /// Lost and not yet told by a LOST record.
    pending: u64,
    lost: u64,
    scratch: Vec<u8>,
}

impl Producer {
    /// What every sample carries from now on.
    pub fn fields(&mut self) -> &mut Fields {
        &mut self.fields
    }

    /// All losses so far: what `PERF_FORMAT_LOST` says.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The position that is written next.
    pub fn head(&self) -> u64 {
        self.writer.head()
    }

    /// Bytes that are free, as the reader has committed.
    pub fn room(&self) -> usize {
        self.writer.room()
    }

    /// A copy of the ring's data, by offset.
    pub fn memory(&self) -> Vec<u8> {
        self.writer.memory()
    }

    /// `bpf_perf_event_output`: a sample with these raw bytes, at most 65,516. The padding keeps what the ring
    /// had there. After a loss, a LOST record goes before it and needs room too.
    ///
    /// # Errors
    ///
    /// The ring has no room; the loss is counted.
    pub fn output(&mut self, raw: &[u8]) -> Result<(), NoRoom> {
        let mut bytes = std::mem::take(&mut self.scratch);
        let size = self.sample(&mut bytes, raw);
        assert!(size <= 65_528, "a larger record runs over its reservation: Mock::output_oversized");
        let result = self.reserve(&bytes, size);
        self.scratch = bytes;
        result
    }

    /// A record of any kind; `body` is padded with zeros to a multiple of eight.
    ///
    /// # Errors
    ///
    /// The ring has no room; the loss is counted.
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) -> Result<(), NoRoom> {
        let size = 8 + body.len().next_multiple_of(8);
        let header = Header { kind, misc, size: u16::try_from(size).expect("a record below 64 KiB") };
        let mut bytes = [&header.to_bytes(), body].concat();
        bytes.resize(size, 0);
        self.reserve(&bytes, size)
    }

    /// Any bytes, published as if they were records. False where they do not fit between head and tail.
    pub fn inject(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.writer.room() {
            return false;
        }
        self.writer.write(0, bytes);
        self.writer.step(bytes.len());
        true
    }

    /// `__perf_output_begin`: room for `size` bytes, of which `bytes` are written, and for LOST before them.
    fn reserve(&mut self, bytes: &[u8], size: usize) -> Result<(), NoRoom> {
        let lost = if self.pending == 0 { Vec::new() } else { self.lost_record() };
        // CIRC_SPACE: one byte is never used, so of multiples of eight, eight.
        if lost.len() + size + 8 > self.writer.room() {
            self.pending += 1;
            self.lost += 1;
            return Err(NoRoom);
        }
        self.pending = 0;
        self.writer.write(0, &lost);
        self.writer.write(lost.len(), bytes);
        self.writer.step(lost.len() + size);
        Ok(())
    }

    fn lost_record(&self) -> Vec<u8> {
        let size = self.format.lost_size() as u16;
        let mut bytes = Header { kind: kind::LOST, misc: 0, size }.to_bytes().to_vec();
        bytes.extend(self.fields.id.to_ne_bytes());
        bytes.extend(self.pending.to_ne_bytes());
        if self.format.sample_id_all {
            use sample_type::*;
            // `__perf_event__output_id_sample`
            for field in [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER] {
                if self.format.sample_type & field != 0 {
                    bytes.extend(self.field(field));
                }
            }
        }
        bytes
    }

    /// `perf_output_sample`, without the padding; says how large the record is with it.
    fn sample(&self, bytes: &mut Vec<u8>, raw: &[u8]) -> usize {
        use sample_type::*;
        bytes.clear();
        bytes.extend([0; 8]);
        for field in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if self.format.sample_type & field != 0 {
                bytes.extend(self.field(field));
            }
        }
        if self.format.sample_type & CALLCHAIN != 0 {
            bytes.extend((self.fields.callchain.len() as u64).to_ne_bytes());
            bytes.extend(self.fields.callchain.iter().flat_map(|ip| ip.to_ne_bytes()));
        }
        if self.format.sample_type & RAW != 0 {
            // `perf_sample_save_raw_data`: the size is rounded up so that it and its u32 fill eight bytes.
            let padded = (raw.len() + 4).next_multiple_of(8) - 4;
            bytes.extend((padded as u32).to_ne_bytes());
            bytes.extend(raw);
        }
        let size = bytes.len().next_multiple_of(8);
        // The size field overflows silently, as the kernel's does.
        let header = Header { kind: kind::SAMPLE, misc: 1, size: size as u16 };
        bytes[..8].copy_from_slice(&header.to_bytes());
        size
    }

    fn field(&self, field: u64) -> [u8; 8] {
        use sample_type::*;
        let two = |low: u32, high: u32| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&low.to_ne_bytes());
            bytes[4..].copy_from_slice(&high.to_ne_bytes());
            bytes
        };
        let f = &self.fields;
        match field {
            TID => two(f.tgid, f.pid),
            CPU => two(f.cpu, 0),
            IP => f.ip.to_ne_bytes(),
            TIME => f.time.to_ne_bytes(),
            ADDR => f.addr.to_ne_bytes(),
            STREAM_ID => f.stream_id.to_ne_bytes(),
            PERIOD => f.period.to_ne_bytes(),
            _ => f.id.to_ne_bytes(),
        }
    }
}

/// The kernel's side of a ring in overwrite mode, written backward, and its memory.
pub struct Overwrite {
    /// The ring's data, by offset.
    pub data: Vec<u8>,
    /// The position of the newest record; it only falls.
    pub head: u64,
}

impl Overwrite {
    /// A ring of `size` bytes, a power of two from 8, that begins at `start`, a multiple of 8.
    pub fn new(size: usize, start: u64) -> Overwrite {
        assert!(size.is_power_of_two() && size >= 8 && start.is_multiple_of(8), "no ring of {size} bytes");
        Overwrite { data: vec![0; size], head: start }
    }

    /// A record of any kind over whatever is there; `body` is padded with zeros to a multiple of eight.
    pub fn record(&mut self, kind: u32, body: &[u8]) {
        let size = 8 + body.len().next_multiple_of(8);
        let header = Header { kind, misc: 0, size: u16::try_from(size).expect("a record below 64 KiB") };
        self.head = self.head.wrapping_sub(size as u64);
        let bytes = header.to_bytes().into_iter().chain(body.iter().copied()).chain(std::iter::repeat(0));
        for (at, byte) in (0_u64..).zip(bytes.take(size)) {
            let offset = self.head.wrapping_add(at) as usize & (self.data.len() - 1);
            self.data[offset] = byte;
        }
    }
}

/// Both sides of a ring. Take it apart to give the producer to a thread.
pub struct Mock {
    /// The kernel's side.
    pub producer: Producer,
    /// Ours.
    pub reader: Forward,
}

impl Mock {
    /// A ring of `size` bytes, a power of two from 8, whose positions begin at `start`, a multiple of 8.
    pub fn new(cpu: u32, size: usize, format: SampleFormat, start: u64) -> Mock {
        let (mapping, writer) = Mapping::heap(size, start);
        let fields = Fields { cpu, ..Fields::default() };
        let producer = Producer { writer, format, fields, pending: 0, lost: 0, scratch: Vec::new() };
        Mock { producer, reader: Forward::new(cpu, mapping) }
    }

    /// Bytes of data.
    pub fn size(&self) -> usize {
        self.producer.writer.size()
    }

    /// Writes `bytes` at `position`, over whatever is there.
    pub fn damage(&mut self, position: u64, bytes: &[u8]) {
        let head = self.producer.head();
        self.reader.mapping().damage(&mut self.producer.writer, position, bytes, head);
    }

    /// Publishes a head, whatever is there.
    pub fn set_head(&mut self, head: u64) {
        self.reader.mapping().damage(&mut self.producer.writer, head, &[], head);
    }

    /// A sample written as in overwrite mode: without a look at `data_tail`.
    pub fn overwrite(&mut self, raw: &[u8]) {
        let mut bytes = Vec::new();
        let size = self.producer.sample(&mut bytes, raw);
        let head = self.producer.head();
        let next = head.wrapping_add(size as u64);
        self.reader.mapping().damage(&mut self.producer.writer, head, &bytes, next);
    }

    /// A sample of more than 65,516 raw bytes, as a real kernel does it: room is made for the size modulo
    /// 65,536, all bytes are copied, over unread records if need be, and the helper says that all is well.
    ///
    /// # Errors
    ///
    /// No room for the overflown size; the loss is counted.
    pub fn output_oversized(&mut self, raw: &[u8]) -> Result<(), NoRoom> {
        let mut bytes = Vec::new();
        let size = usize::from(self.producer.sample(&mut bytes, raw) as u16);
        self.producer.reserve(&[], size)?;
        let published = self.producer.head();
        let start = published.wrapping_sub(size as u64);
        self.reader.mapping().damage(&mut self.producer.writer, start, &bytes, published);
        Ok(())
    }
}
