//! What is wrong with a text that is no YAML, in words for whoever wrote it. Pure; called by [`super`].
//!
//! The library's own words are about parsers. Its kinds of errors are many; what to do about them is little.

use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::{Error, ExternalMessageSource, Location};

use super::node::SourcePosition;

const TAB: &str = "a tab stands where YAML takes only spaces: indent with spaces";
const INDENTATION: &str =
    "the indentation does not fit the lines before: fields of one object begin in the same column";
const COLON: &str =
    "no field can begin here: indent it like the fields beside it, or put a text that holds ': ' in quotes";
const NO_COLON: &str = "a field's name lacks its ':'";
const BRACKET: &str =
    "a bracket is not closed, or not in its place: '{' ends with '}', '[' with ']', and ',' stands between";
const QUOTE: &str = "a text in quotes does not end, or something follows it: close the quote";
const ESCAPE: &str =
    "an escape in a text in double quotes is none: write \\\\ for a backslash, or use single quotes";
const CHARACTER: &str = "a character that no text begins with: put the text in quotes";
const BLOCK_TEXT: &str =
    "a text of several lines (| or >) begins wrongly: all its lines are indented alike, with spaces";
const LIST: &str = "an item of a list (-) cannot stand here: items of one list begin in the same column";
const ALIAS: &str = "an alias (*) names no anchor (&) that stands before it";
const MERGE: &str = "a merge (<<) takes a map, or a list of maps";
const NAME: &str = "the name of a field has to be a text";
const LARGE: &str = "the document is too large, or nested too deep";
const NUMBER: &str = "a number that JSON does not have";
const TAG: &str = "a tag (!) that Kubernetes does not take";
const TEMPLATE: &str = "this looks like a template ({{): render it first, as helm template does";
const OTHER: &str = "this cannot be read as YAML";

/// Where a text stops to make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The position of it.
    pub at: SourcePosition,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What is wrong, and where.
pub(super) fn explain(error: &Error, text: &str) -> Unreadable {
    let at = error
        .location()
        .filter(|at| *at != Location::UNKNOWN)
        .map_or(SourcePosition::START, SourcePosition::from);
    let line = usize::try_from(at.line - 1).ok().and_then(|line| text.lines().nth(line)).unwrap_or_default();
    let message = if line.contains("{{") { TEMPLATE } else { words(error, line) };
    Unreadable { at, message: message.to_owned() }
}

/// What is wrong with a line.
fn words(error: &Error, line: &str) -> &'static str {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => words(error, line),
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(error) => of_parser(error.kind(), line),
            _ => OTHER,
        },
        Error::UnknownAnchor { .. } => ALIAS,
        Error::MergeValueNotMapOrSeqOfMaps { .. } | Error::MergeKeyNotAllowed { .. } => MERGE,
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::RecursiveReferencesRequireWeakTypes { .. } => LARGE,
        Error::NullIntoString { .. }
        | Error::Unexpected { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. } => NAME,
        Error::NonFiniteFloat { .. } => NUMBER,
        Error::InvalidScalar { .. } | Error::UnsupportedTag { .. } | Error::TaggedEnumMismatch { .. } => TAG,
        Error::IndentationError { .. } => INDENTATION,
        Error::FoldedBlockScalarMustIndentContent { .. } => BLOCK_TEXT,
        _ => OTHER,
    }
}

fn of_parser(kind: &ErrorKind, line: &str) -> &'static str {
    match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => TAB,
        // The parser often notices a tab by what it hides.
        _ if line.chars().take_while(|it| it.is_whitespace()).any(|it| it == '\t') => TAB,
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidFlowScalarIndent => INDENTATION,
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::MappingKeyNotAllowed
        | ErrorKind::InvalidColonPlacement => COLON,
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => NO_COLON,
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::MisplacedFlowCollectionEnd
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::FlowMappingValueAdjacentCollection => BRACKET,
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => QUOTE,
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => ESCAPE,
        ErrorKind::UnexpectedCharacter { .. } | ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
            CHARACTER
        }
        ErrorKind::ZeroBlockScalarIndent
        | ErrorKind::InvalidBlockScalarHeader
        | ErrorKind::InvalidBlockScalarIndent => BLOCK_TEXT,
        ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace => LIST,
        ErrorKind::UnknownAnchor | ErrorKind::MissingAnchorOrAliasName => ALIAS,
        ErrorKind::RecursionLimitExceeded | ErrorKind::InputByteLimitExceeded { .. } => LARGE,
        ErrorKind::UndeclaredTagHandle | ErrorKind::InvalidTagTerminator | ErrorKind::MissingTagUri => TAG,
        _ => OTHER,
    }
}
