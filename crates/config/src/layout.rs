//! Finds where each key and value of a YAML text is, and how it is written. An edit of the text needs this.
//!
//! `yaml` reads values and resolves aliases and merges. Here an alias stays an alias, and a merge (`<<`) is an entry
//! like others.

use serde_yaml::granit_parser::{Event, Parser, Span, StructureStyle};
use std::iter::Peekable;
use std::ops::Range;
use system::error::Diagnostic;

/// A value as it was written. Places are bytes of the text.
pub struct Node {
    /// The bytes from its first character to its last. An anchor or tag is before them.
    pub at: Range<usize>,
    pub anchor: Option<String>,
    pub kind: NodeKind,
}

pub enum NodeKind {
    Map(Style, Vec<MappingEntry>),
    List(Vec<Node>),
    Scalar,
    Alias,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Each key has a line of its own.
    Block,
    /// Keys and values are written between braces.
    Flow,
}

pub struct MappingEntry {
    pub key: String,
    /// The bytes in which the key is written.
    pub at: Range<usize>,
    pub value: Node,
}

impl Node {
    /// Returns the value of a key that is written in this mapping. Merged keys are not found.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn entry(&self, key: &str) -> Option<&MappingEntry> {
        match &self.kind {
            NodeKind::Map(_, entries) => entries.iter().find(|entry| entry.key == key),
            NodeKind::List(_) | NodeKind::Scalar | NodeKind::Alias => None,
        }
    }

    /// Returns true if this node or one below it has an anchor, which can be used elsewhere.
    pub fn holds_anchor(&self) -> bool {
        let within = |node: &Node| node.anchor.is_some() || node.holds_anchor();
        match &self.kind {
            NodeKind::Map(_, entries) => entries.iter().any(|entry| within(&entry.value)),
            NodeKind::List(items) => items.iter().any(within),
            NodeKind::Scalar | NodeKind::Alias => false,
        }
    }
}

/// Reads the layout of a text.
///
/// # Errors
/// Returns an error for a text that is no YAML, and for keys that are not single words.
pub fn read(text: &str) -> Result<Node, Diagnostic> {
    let refused = || Diagnostic::new("this YAML is written in a way that cannot be edited");
    let options = serde_yaml::granit_parser::options! { emit_anchor_events: true };
    let events = Parser::new_from_str_with_options(text, options)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| refused())?;
    let mut events = events
        .into_iter()
        .filter(|(event, _)| is_content(event))
        .peekable();
    read_node(&mut events).ok_or_else(refused)
}

fn is_content(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Scalar(..)
            | Event::Alias(_)
            | Event::Anchor(..)
            | Event::MappingStart(..)
            | Event::MappingEnd
            | Event::SequenceStart(..)
            | Event::SequenceEnd
    )
}

fn read_node<'a, I>(events: &mut Peekable<I>) -> Option<Node>
where
    I: Iterator<Item = (Event<'a>, Span)>,
{
    let (event, span) = events.next()?;
    let mut at = span.start.byte_offset()?..span.end.byte_offset()?;
    let anchor = match events.next_if(|(event, _)| matches!(event, Event::Anchor(..))) {
        Some((Event::Anchor(_, name), _)) => Some(name.into_owned()),
        _ => None,
    };
    let kind = match event {
        Event::Scalar(..) => NodeKind::Scalar,
        Event::Alias(_) => NodeKind::Alias,
        Event::SequenceStart(style, ..) => {
            let mut items = Vec::new();
            let end = loop {
                match events.next_if(|(event, _)| matches!(event, Event::SequenceEnd)) {
                    Some((_, end)) => break end,
                    None => items.push(read_node(events)?),
                }
            };
            at.end = end_of(style, end, items.last())?;
            NodeKind::List(items)
        }
        Event::MappingStart(style, ..) => {
            let mut entries = Vec::new();
            let end = loop {
                match events.next_if(|(event, _)| matches!(event, Event::MappingEnd)) {
                    Some((_, end)) => break end,
                    None => entries.push(read_entry(events)?),
                }
            };
            at.end = end_of(
                style,
                end,
                entries.last().map(|entry: &MappingEntry| &entry.value),
            )?;
            let style = match style {
                StructureStyle::Block => Style::Block,
                StructureStyle::Flow => Style::Flow,
            };
            NodeKind::Map(style, entries)
        }
        _ => return None,
    };
    Some(Node { at, anchor, kind })
}

fn read_entry<'a, I>(events: &mut Peekable<I>) -> Option<MappingEntry>
where
    I: Iterator<Item = (Event<'a>, Span)>,
{
    let key = match events.peek()? {
        (Event::Scalar(key, ..), _) => key.clone().into_owned(),
        _ => return None,
    };
    Some(MappingEntry {
        key,
        at: read_node(events)?.at,
        value: read_node(events)?,
    })
}

/// Returns the end of a node. A block ends with its last entry, although YAML's own end is at the start of the next
/// line.
fn end_of(style: StructureStyle, end: Span, last: Option<&Node>) -> Option<usize> {
    match (style, last) {
        (StructureStyle::Block, Some(last)) => Some(last.at.end),
        _ => end.end.byte_offset(),
    }
}
