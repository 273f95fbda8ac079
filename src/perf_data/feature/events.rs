//! Features that tell events: their descriptions, their groups, and the units they are of.

use super::text::{list, pairs, put_list, put_pairs, put_text, text};
use crate::perf_data::{Attr, Endian, Fields};

/// One of `EVENT_DESC`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDesc {
    /// What it was opened with.
    pub attr: Attr,
    /// Its name.
    pub name: Vec<u8>,
    /// The ids that its records carry.
    pub ids: Vec<u64>,
}

/// One of `GROUP_DESC`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// Which event leads it, counted from 0.
    pub leader: u32,
    /// How many it has.
    pub members: u32,
}

/// A unit's name and its capabilities, each with a value: one of `PMU_CAPS`.
pub type PmuCaps = (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

pub(super) fn parse_events(f: &mut Fields<'_>) -> Option<Vec<EventDesc>> {
    let (count, size) = (f.u32()?, f.u32()? as usize);
    let one = |_| {
        let attr = f.bytes(size)?;
        // The size that all have stands before them; their own says no more.
        let (attr, _) = Attr::parse(attr, f.endian())?;
        let ids = f.u32()?;
        let name = text(f)?;
        let ids = (0..ids).map(|_| f.u64()).collect::<Option<_>>()?;
        Some(EventDesc { attr, name, ids })
    };
    (0..count).map(one).collect()
}

pub(super) fn write_events(all: &[EventDesc], endian: Endian, out: &mut Vec<u8>) {
    endian.put_u32(out, all.len() as u32);
    endian.put_u32(out, Attr::SIZE as u32);
    for event in all {
        event.attr.write(endian, out);
        endian.put_u32(out, event.ids.len() as u32);
        put_text(&event.name, endian, out);
        event.ids.iter().for_each(|id| endian.put_u64(out, *id));
    }
}

pub(super) fn parse_groups(f: &mut Fields<'_>) -> Option<Vec<Group>> {
    list(f, |f| Some(Group { name: text(f)?, leader: f.u32()?, members: f.u32()? }))
}

pub(super) fn write_groups(all: &[Group], endian: Endian, out: &mut Vec<u8>) {
    put_list(all, endian, out, |group, out| {
        put_text(&group.name, endian, out);
        endian.put_u32(out, group.leader);
        endian.put_u32(out, group.members);
    });
}

pub(super) fn parse_pmus(f: &mut Fields<'_>) -> Option<Vec<(u32, Vec<u8>)>> {
    list(f, |f| Some((f.u32()?, text(f)?)))
}

pub(super) fn write_pmus(all: &[(u32, Vec<u8>)], endian: Endian, out: &mut Vec<u8>) {
    put_list(all, endian, out, |(kind, name), out| {
        endian.put_u32(out, *kind);
        put_text(name, endian, out);
    });
}

pub(super) fn parse_pmu_caps(f: &mut Fields<'_>) -> Option<Vec<PmuCaps>> {
    list(f, |f| {
        let caps = pairs(f)?;
        Some((text(f)?, caps))
    })
}

pub(super) fn write_pmu_caps(all: &[PmuCaps], endian: Endian, out: &mut Vec<u8>) {
    put_list(all, endian, out, |(name, caps), out| {
        put_pairs(caps, endian, out);
        put_text(name, endian, out);
    });
}
