//! The wake rule that follows the rate: which of a ring's two output events stands in its slot.
//!
//! ```text
//!                      ┌─ bulk: mapped, wakes at a quarter of the ring ──┐
//!   slot of the CPU ───┤                                                 ├──► one ring, one descriptor to poll
//!                      └─ prompt: SET_OUTPUT, wakes for each record ─────┘
//! ```
//!
//! The event that a program finds in the slot decides whether its record wakes the reader; where the record goes
//! is the same. So a swap loses nothing and doubles nothing: a program that took one event from the slot before
//! writes into the ring that is read.

use super::Set;
use crate::error::Result;

impl Set {
    /// Has the wake rule stay as it is, since a slot is not ours any more: putting an event into it would hide that.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// Whether the kernel wakes whoever polls for each record: false at the start.
    pub fn prompt(&self) -> bool {
        self.prompt
    }

    /// Has the kernel wake whoever polls for each record from now on, or only at a quarter of a ring. A wake-up costs
    /// the traced program more than all else, so this is for rates of some thousand records a second, and
    /// whoever polls looks at the rate: [`frontend::Pace`](crate::frontend) does.
    ///
    /// Says what holds then. Sets stay as they are that have no choice, or were [settled](Set::settle): without [`Wake::Latency`](super::Wake), without
    /// an array, or with one that is [`shared`](super::Array::shared); and where the right to write slots has been
    /// given up (5.10 then refuses, 6.12 does not). **Call this with false before giving up rights**, or a
    /// rate that rises later finds a wake-up for each record. One system call a CPU where something changes.
    ///
    /// # Errors
    ///
    /// Runtime, the first slot that the kernel refuses to fill for another reason.
    pub fn set_prompt(&mut self, prompt: bool) -> Result<bool> {
        if prompt == self.prompt || !self.attr.prompt || self.settled || self.slots.is_none() {
            return Ok(self.prompt);
        }
        self.prompt = prompt;
        for at in 0..self.rings.len() {
            match self.put(self.rings[at].cpu) {
                Err(e) if e.os_error() == Some(libc::EPERM) => {
                    self.prompt = !prompt;
                    self.settled = true;
                    break;
                }
                put => put?,
            }
        }
        Ok(self.prompt)
    }
}
