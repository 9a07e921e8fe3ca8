//! Expressions of `PromQL` against the tables: takes the text of one, gives the labels that its result can have, or says
//! which metric, label or value does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::token::T_LOR;
use promql_parser::parser::{
    self, AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality, VectorSelector,
};

use crate::tables::{self, Entry};

/// What Prometheus adds to every series: who was scraped.
const TARGET: [&str; 7] = ["container", "endpoint", "instance", "job", "namespace", "pod", "service"];

type Names = BTreeSet<String>;
/// The values that a label can have, where they are known.
type Labels = BTreeMap<&'static str, Option<Vec<&'static str>>>;

static METRICS: LazyLock<BTreeMap<String, Labels>> = LazyLock::new(|| {
    let tables =
        [tables::operator(), tables::process(), tables::exporter(), tables::agent(), tables::cluster()];
    tables.into_iter().flatten().flat_map(series).collect()
});

/// The series that a metric is served as.
fn series(entry: Entry) -> Vec<(String, Labels)> {
    let Entry { name, kind, labels, .. } = entry;
    let labels: Labels = labels.into_iter().map(|label| (label.name, label.values.ok())).collect();
    if kind != "histogram" {
        return vec![(name, labels)];
    }
    let mut of_bucket = labels.clone();
    of_bucket.insert("le", None);
    vec![
        (format!("{name}_bucket"), of_bucket),
        (format!("{name}_sum"), labels.clone()),
        (format!("{name}_count"), labels),
    ]
}

/// The labels that the result of an expression can have.
pub(crate) fn labels(text: &str) -> Result<Names, String> {
    let expression = parser::parse(text).map_err(|error| format!("{text}: {error}"))?;
    let labels = of(&expression).map_err(|problem| format!("{text}: {problem}"))?;
    labels.ok_or_else(|| format!("{text}: gives no series"))
}

/// `None` for what is no vector.
fn of(expression: &Expr) -> Result<Option<Names>, String> {
    match expression {
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(None),
        Expr::Paren(inner) => of(&inner.expr),
        Expr::Unary(inner) => of(&inner.expr),
        Expr::Subquery(inner) => of(&inner.expr),
        Expr::VectorSelector(selector) => of_selector(selector).map(Some),
        Expr::MatrixSelector(selector) => of_selector(&selector.vs).map(Some),
        Expr::Aggregate(aggregate) => of_aggregate(aggregate).map(Some),
        Expr::Call(call) => of_call(call),
        Expr::Binary(binary) => of_binary(binary),
        Expr::Extension(_) => Err("something new".to_owned()),
    }
}

fn of_selector(selector: &VectorSelector) -> Result<Names, String> {
    let name = selector.name.as_deref().ok_or("a selector without a name")?;
    let known = METRICS.get(name).ok_or_else(|| format!("there is no metric {name}"))?;
    for Matcher { op, name: label, value } in &selector.matchers.matchers {
        let values = match known.get(label.as_str()) {
            Some(values) => values.as_ref(),
            None if TARGET.contains(&label.as_str()) => None,
            None => return Err(format!("{name} has no label {label}")),
        };
        let said: Vec<&str> = match op {
            MatchOp::Equal | MatchOp::NotEqual => vec![value],
            MatchOp::Re(_) | MatchOp::NotRe(_) => value.split('|').collect(),
        };
        if let Some(values) = values
            && let Some(wrong) = said.iter().find(|it| !values.contains(it))
        {
            return Err(format!("{label} of {name} is never {wrong}"));
        }
    }
    Ok(known.keys().copied().chain(TARGET).map(str::to_owned).collect())
}

fn of_aggregate(AggregateExpr { expr, modifier, .. }: &AggregateExpr) -> Result<Names, String> {
    let inner = of(expr)?.ok_or("an aggregate of what is no vector")?;
    match modifier {
        None => Ok(Names::new()),
        Some(modifier) => {
            let named = among(&modifier.labels().labels, &inner)?;
            Ok(match modifier {
                LabelModifier::Include(_) => named,
                LabelModifier::Exclude(_) => inner.difference(&named).cloned().collect(),
            })
        }
    }
}

fn of_call(Call { func, args }: &Call) -> Result<Option<Names>, String> {
    let mut vectors = Vec::new();
    for argument in &args.args {
        vectors.extend(of(argument)?);
    }
    Ok(match func.name {
        "vector" | "absent" => Some(Names::new()),
        "histogram_quantile" => {
            let mut names = vectors.pop().ok_or("a quantile of nothing")?;
            names.remove("le").then_some(names)
        }
        _ => vectors.pop(),
    })
}

fn of_binary(BinaryExpr { op, lhs, rhs, modifier }: &BinaryExpr) -> Result<Option<Names>, String> {
    let (left, right) = match (of(lhs)?, of(rhs)?) {
        (Some(left), Some(right)) => (left, right),
        (one, other) => return Ok(one.or(other)),
    };
    let matching = modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
    match matching {
        Some(LabelModifier::Include(on)) => {
            among(&on.labels, &left)?;
            among(&on.labels, &right)?;
        }
        Some(LabelModifier::Exclude(ignoring)) => {
            among(&ignoring.labels, &left.union(&right).cloned().collect())?;
        }
        // Series that are told apart by different labels never match.
        None if left != right && op.id() != T_LOR => {
            return Err(format!("{left:?} and {right:?} do not match"));
        }
        None => {}
    }
    let taken = match modifier.as_ref().map(|modifier| &modifier.card) {
        Some(VectorMatchCardinality::ManyToOne(labels)) => among(&labels.labels, &right)?,
        Some(VectorMatchCardinality::OneToMany(labels)) => among(&labels.labels, &left)?,
        _ => Names::new(),
    };
    Ok(Some(left.union(&taken).cloned().collect()))
}

/// The labels, which have to be among those that there are.
fn among(labels: &[String], all: &Names) -> Result<Names, String> {
    match labels.iter().find(|label| !all.contains(*label)) {
        Some(missing) => Err(format!("there is no label {missing} among {all:?}")),
        None => Ok(labels.iter().cloned().collect()),
    }
}

#[rstest::rstest]
#[case("memcached_operator_nothing", "there is no metric")]
#[case(r#"memcached_up{name="a"}"#, "has no label name")]
#[case(r#"memcached_operator_rollouts_total{cause="whim"}"#, "is never whim")]
#[case(r#"memcached_operator_rollouts_total{cause!~"spec|whim"}"#, "is never whim")]
#[case("sum by (name) (memcached_up)", "there is no label name")]
#[case("max by (job) (memcached_operator_leader) and memcached_operator_queue_depth", "do not match")]
#[case("memcached_up and on (name) memcached_operator_instance_info", "there is no label name")]
#[case("sum(", "")]
fn what_does_not_exist_is_found(#[case] expression: &str, #[case] problem: &str) {
    assert!(labels(expression).unwrap_err().contains(problem), "{:?}", labels(expression));
}

#[rstest::rstest]
#[case("histogram_quantile(0.9, sum by (le, job) (rate(memcached_operator_reconcile_duration_seconds_bucket[5m])))", &["job"])]
#[case("count(memcached_up == 0) or vector(0)", &[])]
#[case(
    "max by (name) (memcached_operator_instance_replicas_ready) * on (name) group_left (image) \
     max by (name, image) (memcached_operator_instance_info)",
    &["image", "name"]
)]
fn what_exists_gives_the_labels_of_its_result(#[case] expression: &str, #[case] expected: &[&str]) {
    assert_eq!(labels(expression), Ok(expected.iter().map(|label| (*label).to_owned()).collect()));
}
