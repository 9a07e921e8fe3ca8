//! The views of `view` as text for people. Takes a view, gives text with colours in it; whoever prints the text takes the
//! colours out where nobody would see them. Pure.

pub mod cache;
pub mod events;
pub mod list;
pub mod table;
pub mod top;
pub mod words;
