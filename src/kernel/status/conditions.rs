//! Conditions: types, reasons, messages. Pure.
