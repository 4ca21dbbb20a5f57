//! Where each key and value of a YAML text stands, and how it is written: what an edit of the text needs.
//!
//! Values are read in `yaml`. Here an alias stays an alias, and a merge (`<<`) an entry like others.

use serde_yaml::granit_parser::{Event, Parser, Span, StructureStyle};
use std::iter::Peekable;
use std::ops::Range;
use system::error::Diagnostic;

/// A value as it was written. Places are bytes of the text.
pub struct Node {
    /// From its first character to its last. An anchor or tag stands before it.
    pub at: Range<usize>,
    pub anchor: Option<String>,
    pub kind: NodeKind,
}

pub enum NodeKind {
    Map(Style, Vec<Entry>),
    List(Vec<Node>),
    Scalar,
    Alias,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A key a line.
    Block,
    /// Between braces.
    Flow,
}

pub struct Entry {
    pub key: String,
    /// The place of the key.
    pub at: Range<usize>,
    pub value: Node,
}

impl Node {
    /// The value of a key that is written in this mapping, and not merged into it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            NodeKind::Map(_, entries) => entries.iter().find(|entry| entry.key == key),
            NodeKind::List(_) | NodeKind::Scalar | NodeKind::Alias => None,
        }
    }

    /// Whether something in it has a name that can be used elsewhere.
    pub fn holds_anchor(&self) -> bool {
        let within = |node: &Node| node.anchor.is_some() || node.holds_anchor();
        match &self.kind {
            NodeKind::Map(_, entries) => entries.iter().any(|entry| within(&entry.value)),
            NodeKind::List(items) => items.iter().any(within),
            NodeKind::Scalar | NodeKind::Alias => false,
        }
    }
}

/// # Errors
/// Text that is no YAML, and keys that are no single words.
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
            at.end = end_of(style, end, entries.last().map(|entry: &Entry| &entry.value))?;
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

fn read_entry<'a, I>(events: &mut Peekable<I>) -> Option<Entry>
where
    I: Iterator<Item = (Event<'a>, Span)>,
{
    let key = match events.peek()? {
        (Event::Scalar(key, ..), _) => key.clone().into_owned(),
        _ => return None,
    };
    Some(Entry {
        key,
        at: read_node(events)?.at,
        value: read_node(events)?,
    })
}

/// A block ends with the last thing in it: its own end is where the next line begins.
fn end_of(style: StructureStyle, end: Span, last: Option<&Node>) -> Option<usize> {
    match (style, last) {
        (StructureStyle::Block, Some(last)) => Some(last.at.end),
        _ => end.end.byte_offset(),
    }
}
