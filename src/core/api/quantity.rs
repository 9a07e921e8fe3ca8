//! Kubernetes quantities, compared exactly: `1024Mi` is `1Gi`, `0.5` is `500m`. Pure; called by
//! [`super::validate`], by the kernel's diff and by its hash of a pod template.
//!
//! Our own parser because the published one (`kube_quantity`) goes through floating point, which takes neighbouring
//! amounts for equal.

use std::fmt;
use std::iter::successors;
use std::ops::Neg;

/// Kubernetes knows nothing finer: it rounds up to one billionth.
const NANOS: i128 = 1_000_000_000;
/// Digits behind the point at most: the finest there is, and few enough for exact 128-bit arithmetic.
const FRACTION_DIGITS: usize = 9;
/// Units of a decimal amount, from billionths on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Units of a binary amount.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount in billionths of its unit (bytes, cores), ordered by size. Amounts beyond 10^29 count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads `128Mi`, `0.5`, `500m`, `1e3`; `None` for what is no quantity, or has more than 9 digits behind the
    /// point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if number.len() < 1 + usize::from(number.contains('.'))
            || !digits(fraction)
            || fraction.len() > FRACTION_DIGITS
        {
            return None;
        }
        let amount = Self(scaled(whole, fraction, Suffix::parse(suffix)?));
        Some(if negative { -amount } else { amount })
    }

    /// A quantity of that many bytes, or of that many whole units of anything else.
    #[must_use]
    pub const fn from_units(count: i64) -> Self {
        // Widening; `i128::from` is not const.
        Self(count as i128 * NANOS)
    }

    /// A quantity of that many mebibytes.
    #[must_use]
    pub const fn from_mebibytes(count: i32) -> Self {
        Self::from_units((count as i64) << 20)
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

/// Each amount in one spelling, as Kubernetes stores it: `1Gi` for `1024Mi`, `500m` for `0.5`. Kubernetes keeps two spellings of
/// some, such as `1073741824` beside `1Gi`: then it is the one with the smaller number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = *self;
        let decimal = in_largest_unit(nanos, 1000, &DECIMAL);
        let binary = (nanos % NANOS == 0).then(|| in_largest_unit(nanos / NANOS, 1024, &BINARY));
        let smaller = binary.filter(|(number, _)| number.unsigned_abs() < decimal.0.unsigned_abs());
        match smaller.unwrap_or(decimal) {
            (0, _) => f.write_str("0"),
            (number, unit) => write!(f, "{number}{unit}"),
        }
    }
}

/// An amount as a whole number of the largest unit that allows that. Each unit is `base` times the one before.
fn in_largest_unit(amount: i128, base: i128, units: &[&'static str]) -> (i128, &'static str) {
    let numbers = successors(Some(amount), |number| (number % base == 0).then(|| number / base));
    numbers.zip(units.iter().copied()).last().unwrap_or((amount, ""))
}

/// The one spelling of an amount; a text that is no quantity stays as it is.
#[must_use]
pub fn in_one_spelling(text: &str) -> String {
    Quantity::parse(text).map_or_else(|| text.to_owned(), |amount| amount.to_string())
}

/// Whether two quantities are the same amount. Texts that are no quantities are the same when they are equal.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    a == b || Quantity::parse(a).is_some_and(|amount| Quantity::parse(b) == Some(amount))
}

#[derive(Clone, Copy)]
enum Suffix {
    /// A power of two; such amounts end at 2^63-1.
    Binary(u32),
    /// A power of ten.
    Decimal(i32),
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            _ => Self::Decimal(text.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }
}

/// `whole.fraction` times the suffix, in billionths, saturating.
fn scaled(whole: &str, fraction: &str, suffix: Suffix) -> i128 {
    // Too many digits to hold is too large to tell apart.
    let whole = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(i128::MAX) };
    let fraction: i128 = format!("{fraction:0<FRACTION_DIGITS$}").parse().unwrap_or(0);
    let amount = whole.saturating_mul(NANOS).saturating_add(fraction);
    match suffix {
        Suffix::Binary(power) => amount.saturating_mul(1 << power).min(i128::from(i64::MAX) * NANOS),
        Suffix::Decimal(power) => match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(factor) if power >= 0 => amount.saturating_mul(factor),
            Some(factor) => amount / factor + i128::from(amount % factor != 0),
            None if amount == 0 => 0,
            None if power > 0 => i128::MAX,
            None => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1Gi", "1024Mi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("0.5", "500m")]
    #[case(".5", "0.50")]
    #[case("1", "+1.")]
    #[case("1e3", "1k")]
    #[case("1E3", "1000")]
    #[case("1E", "1e18")]
    #[case("2.5e-1", "250m")]
    #[case("1n", "0.000000001")]
    #[case("0.1n", "1n")] // rounded up, as Kubernetes does
    #[case("1e-99", "1n")]
    #[case("0", "0Gi")]
    #[case("-0", "0e99")]
    #[case("-1Ki", "-1024")]
    #[case("8Ei", "9223372036854775807")] // binary amounts end there
    #[case("no quantity", "no quantity")]
    fn two_spellings_of_an_amount_are_the_same(#[case] a: &str, #[case] b: &str) {
        assert!(same(a, b));
        assert!(same(b, a));
        assert_eq!(in_one_spelling(a), in_one_spelling(b));
    }

    #[rstest]
    #[case("1Gi", "1G")]
    #[case("1Gi", "1025Mi")]
    #[case("9007199254740993", "9007199254740992")] // equal as floating point
    #[case("0.123456789", "0.123456788")]
    #[case("1", "-1")]
    #[case("1", "one")]
    #[case("", "0")]
    fn different_amounts_are_not_the_same(#[case] a: &str, #[case] b: &str) {
        assert!(!same(a, b));
        assert!(!same(b, a));
        assert_ne!(in_one_spelling(a), in_one_spelling(b));
    }

    #[rstest]
    #[case("1024Mi", "1Gi")]
    #[case("0.5Gi", "512Mi")]
    #[case("128.5Ki", "131584")]
    #[case("1073741824", "1Gi")]
    #[case("1000Ki", "1000Ki")]
    #[case("500Mi", "500Mi")]
    #[case("64G", "64G")]
    #[case("1e3", "1k")]
    #[case("1000m", "1")]
    #[case("0.5", "500m")]
    #[case("1500m", "1500m")]
    #[case("100m", "100m")]
    #[case("0.000000001", "1n")]
    #[case("-1536Mi", "-1536Mi")]
    #[case("0Gi", "0")]
    #[case("no quantity", "no quantity")]
    fn an_amount_is_spelled_as_kubernetes_stores_it(#[case] text: &str, #[case] spelled: &str) {
        assert_eq!(in_one_spelling(text), spelled);
        assert!(same(text, spelled));
    }

    #[rstest]
    #[case("")]
    #[case("+")]
    #[case(".")]
    #[case("Mi")]
    #[case("1 Mi")]
    #[case("1MB")]
    #[case("1mi")]
    #[case("1.2.3")]
    #[case("1e")]
    #[case("1e1.5")]
    #[case("1e+")]
    #[case("0x10")]
    #[case("--1")]
    #[case("1Ki5")]
    #[case("１")]
    fn what_is_no_quantity_is_none(#[case] text: &str) {
        assert_eq!(Quantity::parse(text), None);
    }

    #[test]
    fn amounts_are_ordered_by_size() {
        let ascending =
            ["-1Gi", "-1", "0", "1n", "999999999n", "1", "1k", "1Ki", "95Mi", "1e11", "1e30", "1e99"];
        let parsed: Vec<_> = ascending.iter().map(|text| Quantity::parse(text).unwrap()).collect();
        assert!(parsed.is_sorted(), "{parsed:?}");
        assert_eq!(Quantity::parse("96Mi"), Some(Quantity::from_mebibytes(96)));
        assert_eq!(Quantity::parse("96Mi"), Some(Quantity::from_units(100_663_296)));
    }
}
