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
            remarks(&answers).iter().for_each(say);
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

const HEADINGS: [&str; 9] =
    ["id", "role", "view", "forming", "committed", "executed", "to the leader", "durable", "memory MiB"];

/// The replicas as lines of equal columns.
fn table(answers: &[Answer]) -> Vec<String> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(answers.iter().filter_map(|answer| {
        let state = state_at_leader(answers, answer.id).unwrap_or("-");
        Some(row(answer.id, answer.status.as_ref().ok()?, state))
    }));
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

fn row(id: u32, status: &Value, state: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    vec![
        id.to_string(),
        text(&status["role"]),
        text(&status["view"]),
        text(&status["forming"]["state"]),
        text(&status["positions"]["committed"]),
        text(&status["positions"]["executed"]),
        state.to_owned(),
        text(&status["durable"]),
        (status["process"]["resident_bytes"].as_u64().unwrap_or(0) >> 20).to_string(),
    ]
}

/// How the replica that says it leads, of the latest view if several do, sees the replica `id`.
fn state_at_leader(answers: &[Answer], id: u32) -> Option<&str> {
    let statuses = answers.iter().filter_map(|answer| Some((answer.id, answer.status.as_ref().ok()?)));
    let leads = statuses.filter(|(own, status)| status["leader"].as_u64() == Some(u64::from(*own)));
    let (_, leader) = leads.max_by_key(|(_, status)| status["view"].as_u64())?;
    let peers = leader["peers"].as_array()?;
    peers.iter().find(|peer| peer["id"].as_u64() == Some(u64::from(id)))?["state"].as_str()
}

/// What the table's words do not explain by themselves.
fn remarks(answers: &[Answer]) -> Vec<String> {
    let mut remarks = Vec::new();
    for answer in answers {
        if state_at_leader(answers, answer.id) == Some("needs_snapshot") {
            remarks.push(format!(
                "replica {} is behind the leader's log in memory and needs a snapshot, which this version does not send yet: \
                 it votes, but no write counts on it",
                answer.id
            ));
        }
        let Ok(status) = &answer.status else { continue };
        let forming = &status["forming"];
        if forming["state"] == "unbound" {
            let reason = forming["reason"].as_str().unwrap_or("its incarnation is not a member");
            remarks.push(format!("replica {} counts for nothing: {reason}", answer.id));
        }
        if let Some(reason) = status["stopped"].as_str() {
            remarks.push(format!("replica {} is stopping: {reason}", answer.id));
        }
    }
    remarks
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

    #[test]
    fn a_replica_that_needs_a_snapshot_is_shown_as_the_leader_sees_it() {
        let peers = json!([{"id": 1, "state": "needs_snapshot"}, {"id": 3, "state": "replicate"}]);
        let leader = Answer { id: 2, status: Ok(json!({"leader": 2, "view": 7, "peers": peers})) };
        let deposed = json!({"leader": 3, "view": 6, "peers": [{"id": 1, "state": "replicate"}]});
        let answers = [answer(1, json!(2)), leader, Answer { id: 3, status: Ok(deposed) }];
        assert_eq!(state_at_leader(&answers, 1), Some("needs_snapshot"));
        assert_eq!(state_at_leader(&answers, 2), None, "the leader does not follow itself");
        assert_eq!(state_at_leader(&answers, 3), Some("replicate"));
        assert!(table(&answers)[1].contains("needs_snapshot"), "{:?}", table(&answers));
        assert_eq!(remarks(&answers).len(), 1);
        assert!(remarks(&answers)[0].starts_with("replica 1 is behind"));
    }

    #[test]
    fn an_unbound_replica_has_a_line_with_its_reason() {
        let unbound = json!({"leader": null, "forming": {"state": "unbound", "reason": "it was restarted"}});
        let answers = [Answer { id: 2, status: Ok(unbound) }];
        assert_eq!(remarks(&answers), ["replica 2 counts for nothing: it was restarted"]);
    }
}
