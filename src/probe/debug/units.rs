//! The units of a file's DWARF: which has a function's address, what a reference leads to, which has a type by name.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianReader, NativeEndian, Reader as _, UnitHeader,
    UnitOffset, constants as dw,
};

pub type Reader = EndianReader<NativeEndian, Rc<[u8]>>;
pub type Die = DebuggingInformationEntry<Reader>;
pub type Unit = gimli::Unit<Reader>;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Address ranges of all units together.
const RANGES: usize = 4 << 20;
/// How many ranges that begin before an address may have it.
const OVERLAP: usize = 16;
/// Units that are kept open.
const OPEN: usize = 1024;
/// A file whose types are looked up by name where a unit merely declares them.
const SMALL: usize = 16 << 20;

/// Where an entry is: its unit, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    pub unit: usize,
    pub offset: UnitOffset<usize>,
}

/// What a unit has by address and by name.
#[derive(Debug, Default)]
struct Index {
    functions: HashMap<u64, UnitOffset<usize>>,
    types: HashMap<Box<[u8]>, UnitOffset<usize>>,
    /// It tells of types at all: what is compiled for backtraces alone has functions without parameters.
    typed: bool,
}

/// All units of a file.
#[derive(Debug)]
pub struct Units {
    dwarf: Dwarf<Reader>,
    headers: Vec<UnitHeader<Reader>>,
    /// By where they begin: first and end, and the unit.
    ranges: Vec<(u64, u64, usize)>,
    open: RefCell<HashMap<usize, Rc<Unit>>>,
    indices: RefCell<HashMap<usize, Rc<Index>>>,
    named: RefCell<HashMap<Box<[u8]>, Option<At>>>,
    until: Cell<Instant>,
    steps: Cell<u32>,
    /// Whether the file is small enough for a declaration to be looked up in all units.
    pub small: bool,
    /// Some unit's entries are in a file of their own.
    pub split: bool,
}

impl Units {
    /// Reads the heads of all units.
    pub fn new(mut dwarf: Dwarf<Reader>, bytes: usize) -> Result<Units, String> {
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let mut units = Units {
            dwarf,
            headers: Vec::new(),
            ranges: Vec::new(),
            open: RefCell::default(),
            indices: RefCell::default(),
            named: RefCell::default(),
            until: Cell::new(Instant::now() + PATIENCE),
            steps: Cell::new(0),
            small: bytes <= SMALL,
            split: false,
        };
        let mut headers = units.dwarf.units();
        while let Some(header) = headers.next().map_err(unreadable)? {
            units.step()?;
            units.headers.push(header);
        }
        for number in 0..units.headers.len() {
            let unit = units.unit(number)?;
            units.split |= unit.dwo_id.is_some();
            let mut ranges = units.dwarf.unit_ranges(&unit).map_err(unreadable)?;
            while let Some(range) = ranges.next().map_err(unreadable)? {
                units.step()?;
                if units.ranges.len() == RANGES {
                    return Err(format!("its debug info has more than {RANGES} ranges of addresses"));
                }
                units.ranges.push((range.begin, range.end, number));
            }
        }
        units.ranges.sort_unstable();
        Ok(units)
    }

    /// A new question has all the time again.
    pub fn begin(&self) {
        self.until.set(Instant::now() + PATIENCE);
    }

    /// To be called for whatever there may be much of.
    pub fn step(&self) -> Result<(), String> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(1024) && Instant::now() > self.until.get() {
            return Err(format!("its debug info takes more than {} s to read", PATIENCE.as_secs()));
        }
        Ok(())
    }

    pub fn unit(&self, number: usize) -> Result<Rc<Unit>, String> {
        if let Some(unit) = self.open.borrow().get(&number) {
            return Ok(unit.clone());
        }
        let header = self.headers.get(number).cloned().ok_or("its debug info leads nowhere")?;
        let unit = Rc::new(self.dwarf.unit(header).map_err(unreadable)?);
        let mut open = self.open.borrow_mut();
        if open.len() >= OPEN {
            open.clear();
        }
        open.insert(number, unit.clone());
        Ok(unit)
    }

    pub fn die(&self, at: At) -> Result<Die, String> {
        self.step()?;
        self.unit(at.unit)?.entry(at.offset).map_err(unreadable)
    }

    /// Hands over each child of an entry, until it says that it has enough.
    pub fn children(
        &self,
        at: At,
        mut take: impl FnMut(At, &Die) -> Result<bool, String>,
    ) -> Result<(), String> {
        let unit = self.unit(at.unit)?;
        let mut entries = unit.entries_at_offset(at.offset).map_err(unreadable)?;
        if !entries.next_dfs().map_err(unreadable)?.is_some_and(|die| die.has_children()) {
            return Ok(());
        }
        // The first is below it, or is the null that says that there is none.
        if !entries.next_entry().map_err(unreadable)? {
            return Ok(());
        }
        while let Some(die) = entries.current() {
            self.step()?;
            let child = At { offset: die.offset(), ..at };
            if !take(child, die)? || entries.next_sibling().map_err(unreadable)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// What an attribute of an entry of this unit refers to.
    pub fn target(&self, unit: usize, value: Option<AttributeValue<Reader>>) -> Option<At> {
        match value? {
            AttributeValue::UnitRef(offset) => Some(At { unit, offset }),
            AttributeValue::DebugInfoRef(offset) => {
                let starts = |header: &UnitHeader<Reader>| header.debug_info_offset().map(|o| o.0);
                let after = self.headers.partition_point(|header| starts(header) <= Some(offset.0));
                let unit = after.checked_sub(1)?;
                Some(At { unit, offset: offset.to_unit_offset(&self.headers[unit])? })
            }
            _ => None,
        }
    }

    /// The text of an attribute; empty where it has none that can be read.
    pub fn text(&self, unit: usize, value: Option<AttributeValue<Reader>>) -> Result<String, String> {
        let Some(value) = value else { return Ok(String::new()) };
        let unit = self.unit(unit)?;
        let text = self.dwarf.attr_string(&unit, value).and_then(|t| Ok(t.to_string_lossy()?.into_owned()));
        Ok(text.unwrap_or_default())
    }

    /// The function that begins at an address, in a unit that tells of types.
    pub fn function(&self, address: u64) -> Result<Option<At>, String> {
        let after = self.ranges.partition_point(|&(begin, ..)| begin <= address);
        let near = &self.ranges[after.saturating_sub(OVERLAP)..after];
        for &(.., unit) in near.iter().rev().filter(|&&(_, end, _)| address < end) {
            let index = self.index(unit)?;
            if let Some(&offset) = index.functions.get(&address).filter(|_| index.typed) {
                return Ok(Some(At { unit, offset }));
            }
        }
        Ok(None)
    }

    /// The structure, union or typedef of this name, in this unit rather than in another.
    pub fn type_by_name(&self, near: usize, name: &str) -> Result<Option<At>, String> {
        let name = name.as_bytes();
        let of = |unit: usize| {
            let found = self.index(unit)?.types.get(name).map(|&offset| At { unit, offset });
            Ok::<_, String>(found)
        };
        if let Some(at) = of(near)? {
            return Ok(Some(at));
        }
        if let Some(known) = self.named.borrow().get(name) {
            return Ok(*known);
        }
        let mut found = None;
        for unit in 0..self.headers.len() {
            self.step()?;
            found = of(unit)?;
            if found.is_some() {
                break;
            }
        }
        self.named.borrow_mut().insert(name.into(), found);
        Ok(found)
    }

    fn index(&self, number: usize) -> Result<Rc<Index>, String> {
        if let Some(index) = self.indices.borrow().get(&number) {
            return Ok(index.clone());
        }
        let unit = self.unit(number)?;
        let mut index = Index::default();
        let mut entries = unit.entries();
        while let Some(die) = entries.next_dfs().map_err(unreadable)? {
            self.step()?;
            match die.tag() {
                dw::DW_TAG_subprogram => {
                    // Of a function in several pieces the first is where it begins.
                    let first = self.dwarf.die_ranges(&unit, die).and_then(|mut ranges| ranges.next());
                    if let Ok(Some(range)) = first {
                        index.functions.entry(range.begin).or_insert(die.offset());
                    }
                }
                dw::DW_TAG_structure_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_typedef
                    if !die.has_attr(dw::DW_AT_declaration) =>
                {
                    let name = die.attr_value(dw::DW_AT_name).map(|name| self.dwarf.attr_string(&unit, name));
                    if let Some(Ok(name)) = name
                        && let Ok(name) = name.to_slice()
                    {
                        let typedef = die.tag() == dw::DW_TAG_typedef;
                        let slot = index.types.entry(name.into());
                        // `typedef struct foo foo;` stands beside the structure.
                        if typedef {
                            slot.or_insert(die.offset());
                        } else {
                            slot.insert_entry(die.offset());
                        }
                    }
                }
                dw::DW_TAG_formal_parameter | dw::DW_TAG_base_type => index.typed = true,
                _ => {}
            }
        }
        let index = Rc::new(index);
        self.indices.borrow_mut().insert(number, index.clone());
        Ok(index)
    }
}

/// Why the file's DWARF could not be read.
pub fn unreadable(error: gimli::Error) -> String {
    format!("its debug info cannot be read: {error}")
}
