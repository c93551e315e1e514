//! `quorate cluster status`.

use super::poll::{self, Answer};
use crate::arguments::{Output, StatusArguments};
use crate::exit::{Exit, Failure, say};
use serde_json::{Value, json};

pub(super) fn run(arguments: &StatusArguments) -> Result<Exit, Failure> {
    let cluster = super::load(&arguments.config)?;
    let answers = poll::all(&cluster);
    let leader = common_leader(&answers);
    match arguments.output {
        Output::Json => say(as_json(&cluster.cluster_id().to_string(), leader, &answers)),
        Output::Text => {
            say(format_args!("cluster {} with {}", cluster.cluster_id(), cluster.settings().consensus));
            table(&answers).iter().for_each(say);
            match leader {
                Some(leader) => say(format_args!("leader: replica {leader}")),
                None => say("leader: none that all replicas follow"),
            }
        }
    }
    Ok(if leader.is_some() { Exit::Ok } else { Exit::Failed })
}

/// The leader that every replica names; none if one does not answer.
pub(super) fn common_leader(answers: &[Answer]) -> Option<u64> {
    let leaders = answers.iter().map(|answer| answer.status.as_ref().ok()?["leader"].as_u64());
    let mut leaders = leaders.collect::<Vec<_>>();
    leaders.dedup();
    match leaders[..] {
        [leader] => leader,
        _ => None,
    }
}

fn as_json(cluster: &str, leader: Option<u64>, answers: &[Answer]) -> String {
    let replicas = answers.iter().map(|answer| match &answer.status {
        Ok(status) => json!({"id": answer.id, "reachable": true, "status": status}),
        Err(reason) => json!({"id": answer.id, "reachable": false, "error": reason}),
    });
    let object = json!({"cluster_id": cluster, "leader": leader, "replicas": replicas.collect::<Vec<_>>()});
    format!("{object:#}")
}

const HEADINGS: [&str; 8] = ["id", "role", "view", "forming", "committed", "executed", "durable", "memory MiB"];

/// The replicas as lines of equal columns.
fn table(answers: &[Answer]) -> Vec<String> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(answers.iter().filter_map(|answer| Some(row(answer.id, answer.status.as_ref().ok()?))));
    let widths: Vec<usize> =
        (0..HEADINGS.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect();
    for answer in answers {
        if let Err(reason) = &answer.status {
            lines.push(format!("{}  unreachable: {reason}", answer.id));
        }
    }
    lines
}

fn row(id: u32, status: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    vec![
        id.to_string(),
        text(&status["role"]),
        text(&status["view"]),
        text(&status["forming"]["state"]),
        text(&status["positions"]["committed"]),
        text(&status["positions"]["executed"]),
        text(&status["durable"]),
        (status["process"]["resident_bytes"].as_u64().unwrap_or(0) >> 20).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u32, leader: Value) -> Answer {
        Answer { id, status: Ok(json!({"leader": leader})) }
    }

    #[test]
    fn a_leader_counts_only_if_every_replica_answers_and_names_it() {
        assert_eq!(common_leader(&[answer(1, json!(2)), answer(2, json!(2))]), Some(2));
        assert_eq!(common_leader(&[answer(1, json!(2)), answer(2, json!(1))]), None);
        assert_eq!(common_leader(&[answer(1, json!(2)), answer(2, Value::Null)]), None);
        let silent = Answer { id: 3, status: Err("not running".to_owned()) };
        assert_eq!(common_leader(&[answer(1, json!(2)), silent]), None);
        assert_eq!(common_leader(&[answer(1, Value::Null)]), None);
    }

    #[test]
    fn an_unreachable_replica_has_a_line_with_its_reason() {
        let answers = [answer(1, json!(1)), Answer { id: 2, status: Err("not running".to_owned()) }];
        assert_eq!(table(&answers).last().unwrap(), "2  unreachable: not running");
    }
}
