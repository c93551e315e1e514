//! What is worth saying about a configuration that is nevertheless accepted.

use crate::error::Place;
use std::fmt;

/// Something about an accepted configuration that its owner should know. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub place: Place,
    /// How much it matters.
    pub kind: NoteKind,
    /// One sentence without a full stop, with the values it speaks of.
    pub text: String,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The key is accepted and does nothing here.
    NoEffect,
    /// The configuration works, and probably not as well as was wished.
    Warning,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            NoteKind::NoEffect => "note",
            NoteKind::Warning => "warning",
        };
        write!(formatter, "{}: {kind}: {}", self.place, self.text)
    }
}
