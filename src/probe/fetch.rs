//! What one program captures and judges, in the terms of `struct tracer_fetch` and `struct tracer_op`.

use super::{config::Config, keep::Number};
use crate::schema::{Kind, Wire};

/// `TRACER_FIELDS`, `TRACER_STEPS`, `TRACER_OPS`, `TRACER_TEXT`, `TRACER_DYNAMIC` of `bpf/tracer.h`.
pub const FIELDS: usize = 16;
pub const STEPS: usize = 8;
pub const OPS: usize = 16;
pub const TEXT: usize = 1024;
pub const DYNAMIC: usize = 2048;
/// `TRACER_PATH`
const PATH: u16 = 512;
/// Bytes of a string whose length nothing tells.
pub const STRING: u16 = 256;

/// Where the slots begin that the predicate alone needs.
const JUDGED: usize = Wire::SIZE + 8 * FIELDS + DYNAMIC + TEXT + 8;
/// Where `uid`, `cgroup` and `comm` begin in an event, which end its head.
const UID_AT: u16 = 24;
/// The base that holds the return value.
pub const BASE_RET: u8 = 6;
/// The base of a tracepoint's record.
pub const BASE_RECORD: u8 = 7;
/// Nanoseconds since the entry, where a return is paired with it.
pub const BASE_LAT: u8 = 8;
/// CLOCK_MONOTONIC nanoseconds.
pub const BASE_TIME: u8 = 9;
/// The CPU.
pub const BASE_CPU: u8 = 10;
/// The group id.
pub const BASE_GID: u8 = 11;
/// The address of the function.
pub const BASE_FUNC: u8 = 12;
/// `TRACER_BASES`
const BASES: u8 = 16;
/// A comparison of something that is always there.
pub const NO_FAULT: u8 = 63;

/// How a field's bytes are come by, once its address was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The address is the value.
    Value,
    /// An integer of this many bytes there.
    Memory(u8),
    /// A string there, at most this many bytes with its NUL.
    Text(u16),
    /// This many bytes there.
    Bytes(u16),
    /// A string there into this many slots of eight bytes, for a comparison.
    Words(u16),
    /// The addresses of a stack, at most this many bytes of them: the user's where the fetch is of user memory.
    Stack(u16),
    /// The path of a `struct path` there.
    Path,
    /// The path of a dentry within its file system.
    Dentry,
}

/// One field: from a base over pointers to bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub base: u8,
    /// What is added before each pointer is read.
    pub steps: Vec<i64>,
    /// What is added after the last.
    pub last: i64,
    pub read: Read,
    /// Left and right shifts that cut an integer out, and whether it is signed.
    pub cut: (u8, u8, bool),
    /// The bytes are in user memory.
    pub user: bool,
    /// The pointers on the way are too.
    pub user_steps: bool,
    /// A tracepoint's `__data_loc` (1) or `__rel_loc` (2) stands there.
    pub loc: u8,
}

impl Fetch {
    /// The base itself.
    pub fn value(base: u8) -> Fetch {
        Fetch {
            base,
            steps: Vec::new(),
            last: 0,
            read: Read::Value,
            cut: (0, 0, false),
            user: false,
            user_steps: false,
            loc: 0,
        }
    }

    /// The same with an integer's sign in all of its slot, as comparisons and readers of whole slots need it.
    pub fn signed_as(mut self, kind: Kind) -> Fetch {
        if let Kind::Signed(n @ (1 | 2 | 4)) = kind
            && self.cut == (0, 0, false)
        {
            let unused = 64 - 8 * n;
            self.cut = (unused, unused, true);
        }
        self
    }

    /// Whether reading it can fail.
    pub fn can_fail(&self) -> bool {
        !self.steps.is_empty() || self.read != Read::Value || self.loc != 0
    }

    /// How many bytes the integer has that it reads.
    pub fn bytes_of_integer(&self) -> u8 {
        match (self.read, self.cut) {
            (Read::Memory(n), (0, ..)) => n,
            (_, (0, ..)) => 8,
            (_, (_, shr, _)) => [1, 2, 4, 8].into_iter().find(|n| 8 * n >= 64 - shr).unwrap_or(8),
        }
    }

    fn bytes(&self, at: usize) -> Vec<u8> {
        let (kind, size) = match self.read {
            Read::Value => (0, 0),
            Read::Memory(n) => (1, u16::from(n)),
            Read::Text(n) => (2, n),
            Read::Bytes(n) => (3, n),
            Read::Words(n) => (4, 8 * n),
            Read::Stack(n) => (5, n),
            Read::Path => (6, PATH),
            Read::Dentry => (7, PATH),
        };
        let (shl, shr, sign) = self.cut;
        let mut out = vec![
            self.base,
            self.steps.len() as u8,
            kind,
            u8::from(sign),
            shl,
            shr,
            u8::from(self.user),
            u8::from(self.user_steps),
        ];
        out.extend((at as u16).to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.extend([self.loc, 0, 0, 0]);
        out.extend(self.last.to_ne_bytes());
        (0..STEPS).for_each(|i| out.extend(self.steps.get(i).copied().unwrap_or(0).to_ne_bytes()));
        out
    }
}

/// One operation on the stack of truths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compares a slot (masked) with a constant: less 1, equal 2, more 4.
    Compare {
        at: u16,
        fault: u8,
        mask: u64,
        signed: bool,
        constant: u64,
        want: u8,
    },
    /// Matches a string in slots, of so many bytes at most, with the plan's pattern.
    Glob {
        at: u16,
        size: u16,
        fault: u8,
        stay: u64,
        accept: u64,
    },
    And,
    Or,
    Not,
}

impl Op {
    fn bytes(self) -> Vec<u8> {
        let (kind, want, fault, at, size, mask, bias, constant) = match self {
            Op::Compare { at, fault, mask, signed, constant, want } => {
                (0, want, fault, at, 0, mask, u64::from(signed) << 63, constant)
            }
            Op::And => (1, 0, NO_FAULT, 0, 0, 0, 0, 0),
            Op::Or => (2, 0, NO_FAULT, 0, 0, 0, 0, 0),
            Op::Not => (3, 0, NO_FAULT, 0, 0, 0, 0, 0),
            Op::Glob { at, size, fault, stay, accept } => (4, 0, fault, at, size, stay, 0, accept),
        };
        let mut out = vec![kind, want, fault, 0];
        out.extend(at.to_ne_bytes());
        out.extend(size.to_ne_bytes());
        [mask, bias, constant].iter().for_each(|word| out.extend(word.to_ne_bytes()));
        out
    }
}

/// All that a program captures: fields with their slots, those for the predicate first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    fetches: Vec<(Fetch, u16)>,
    judged: usize,
    ops: Vec<Op>,
    /// Slots of the event in use.
    slots: usize,
    /// Slots of the predicate's own in use.
    own: usize,
    dynamic: usize,
    faults_at: Option<u16>,
    tally: Option<(Number, Number)>,
    /// `glob_next` of the predicate's pattern.
    pattern: Option<Box<[u64; 256]>>,
}

/// Why a plan has no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Fields,
    Slots,
    Text,
    Ops,
    Patterns,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Full::Fields => write!(f, "more than {FIELDS} fields, those of the predicate included"),
            Full::Slots => write!(
                f,
                "more than {FIELDS} slots of eight bytes: a number takes one, a compared string one for each eight \
                 bytes of what it is compared with"
            ),
            Full::Text => write!(f, "strings and buffers of more than {} bytes together", DYNAMIC + TEXT),
            Full::Patterns => write!(f, "more than one pattern with a '*' before its end in a predicate"),
            Full::Ops => write!(f, "a predicate of more than {OPS} operations"),
        }
    }
}

impl Plan {
    /// A plan in which reads can fail has a slot that says which did. Ask for it first.
    pub fn reserve_faults(&mut self) {
        self.faults_at = Some(self.slot() as u16);
    }

    fn slot(&mut self) -> usize {
        let at = Wire::SIZE + 8 * self.slots;
        self.slots += 1;
        at
    }

    /// Adds a field of the event. Gives its slot's offset, and where its fault shows.
    pub fn add(&mut self, fetch: Fetch) -> Result<(u32, Option<(u32, u8)>), Full> {
        let bit = self.fetches.len() as u8;
        if self.fetches.len() == FIELDS {
            return Err(Full::Fields);
        }
        if self.slots == FIELDS {
            return Err(Full::Slots);
        }
        let n = match fetch.read {
            Read::Text(n) | Read::Bytes(n) | Read::Stack(n) => n,
            Read::Path | Read::Dentry => PATH,
            _ => 0,
        };
        if n > 0 {
            // The last may begin anywhere in the space, and has room behind it.
            if self.dynamic >= DYNAMIC {
                return Err(Full::Text);
            }
            self.dynamic += usize::from(n).next_multiple_of(8);
        }
        let fault = self.faults_at.filter(|_| fetch.can_fail()).map(|at| (u32::from(at), bit));
        let at = self.slot();
        self.fetches.push((fetch, at as u16));
        Ok((at as u32, fault))
    }

    /// Adds a field for the predicate alone, before all others. Gives its first slot and its fault's bit.
    pub fn add_judged(&mut self, fetch: Fetch) -> Result<(u16, u8), Full> {
        let words = if let Read::Words(n) = fetch.read { usize::from(n) } else { 1 };
        if self.fetches.len() == FIELDS {
            return Err(Full::Fields);
        }
        if self.own + words > FIELDS {
            return Err(Full::Slots);
        }
        let at = (JUDGED + 8 * self.own) as u16;
        let fault = if fetch.can_fail() { self.judged as u8 } else { NO_FAULT };
        self.own += words;
        self.fetches.push((fetch, at));
        self.judged += 1;
        Ok((at, fault))
    }

    /// How many slots the predicate can still have of its own.
    pub fn own_left(&self) -> usize {
        FIELDS - self.own
    }

    /// Keeps a pattern for [`Op::Glob`]; there is room for one.
    pub fn set_pattern(&mut self, next: Box<[u64; 256]>) -> Result<(), Full> {
        match self.pattern.replace(next) {
            None => Ok(()),
            Some(_) => Err(Full::Patterns),
        }
    }

    /// Adds an operation of the predicate.
    pub fn push(&mut self, op: Op) -> Result<(), Full> {
        if self.ops.len() == OPS {
            return Err(Full::Ops);
        }
        self.ops.push(op);
        Ok(())
    }

    /// Has runs added to tallies in place of events: told apart by the first, of values of the second.
    pub fn tally(&mut self, by: Number, of: Number) {
        self.tally = Some((by, of));
    }

    /// Writes the plan into a probe's configuration.
    pub fn configure(&self, config: &mut Config) {
        config.set_u32("nfetch", self.fetches.len() as u32);
        config.set_u32("njudged", self.judged as u32);
        config.set_u32("nops", self.ops.len() as u32);
        config.set_u32("judges_task", u32::from(self.judges_task()));
        config.set_u32("dynamic", (Wire::SIZE + 8 * self.slots) as u32);
        config.set_u32("faults_at", u32::from(self.faults_at.unwrap_or(0)));
        config.set_u32("builtins", self.builtins());
        let fetches: Vec<u8> = self.fetches.iter().flat_map(|(f, at)| f.bytes(usize::from(*at))).collect();
        let ops: Vec<u8> = self.ops.iter().flat_map(|op| op.bytes()).collect();
        config.set("fetch", &fetches).set("ops", &ops);
        if let Some((by, of)) = self.tally {
            config.set_u32("tally", 1).set("by", &by.bytes()).set("of", &of.bytes());
        }
        if let Some(next) = &self.pattern {
            let bytes: Vec<u8> = next.iter().flat_map(|states| states.to_ne_bytes()).collect();
            config.set("glob_next", &bytes);
        }
    }

    /// The bases from the latency on that anything starts from, a bit each.
    fn builtins(&self) -> u32 {
        (BASE_LAT..BASES).filter(|&base| self.uses(base)).fold(0, |bits, base| bits | 1 << base)
    }

    /// Whether the predicate looks at what an event's head tells of the task beside its ids: it is filled in before
    /// the predicate is judged only then.
    fn judges_task(&self) -> bool {
        let task = UID_AT..Wire::SIZE as u16;
        let looks = |op: &Op| matches!(op, Op::Compare { at, .. } | Op::Glob { at, .. } if task.contains(at));
        self.ops.iter().any(looks)
    }

    /// Whether anything starts from an argument.
    pub fn uses_args(&self) -> bool {
        (0..BASE_RET).any(|base| self.uses(base))
    }

    /// Whether anything starts from this base.
    pub fn uses(&self, base: u8) -> bool {
        self.fetches.iter().any(|(f, _)| f.base == base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::capture::HEAD;

    /// What helpers tell of the task is there before a predicate that looks at it, and before no other.
    #[test]
    fn a_predicate_on_the_task_is_known() {
        let judges = |at: u32| {
            let mut plan = Plan::default();
            let compare = |at: u32| Op::Compare {
                at: at as u16,
                fault: NO_FAULT,
                mask: u64::MAX,
                signed: false,
                constant: 0,
                want: 2,
            };
            [compare(JUDGED as u32), compare(at), Op::And].into_iter().for_each(|op| plan.push(op).unwrap());
            plan.judges_task()
        };
        let known: Vec<&str> = HEAD.iter().filter(|(_, at, _)| judges(*at)).map(|(name, ..)| *name).collect();
        assert_eq!(known, ["uid", "cgroup", "comm"]);
        assert!(judges(HEAD[5].1 + 8) && !judges(JUDGED as u32));
    }
}
