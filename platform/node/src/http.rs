//! `/status`, `/healthz`, `/readyz` and `/digest`, on a thread and a runtime of their own, so that they answer also when the core hangs.
//!
//! | path | 200 | 503 |
//! | --- | --- | --- |
//! | `/status` | the [`StatusReport`] | the core does not answer: says so, with its last report and the age of it |
//! | `/healthz` | the core answers and has not stopped | otherwise, with the reason |
//! | `/readyz` | it is formed and knows a leader | otherwise, with the reason |
//! | `/digest` | `position` and `digest` of the replicated state, equal on all replicas at one position; reads all of it | it did not come in time |

mod limited;

use crate::status::{CoreSnapshot, Identity, Stale, StateDigest, StatusBoard, StatusReport};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
pub(crate) use limited::CONNECTIONS;
use limited::LimitedListener;
use quorate_framework::FormingStatus;
use serde_json::json;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;

/// How long the core may take to answer.
pub const CORE_ANSWER_TIME: Duration = Duration::from_secs(1);

/// How long a digest may take.
pub const DIGEST_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Source {
    identity: Identity,
    board: Arc<StatusBoard>,
}

impl Source {
    async fn ask(&self) -> Result<Arc<CoreSnapshot>, Stale> {
        self.board.ask(CORE_ANSWER_TIME).await
    }
}

/// Serves on `listener`, which must be non-blocking, for the rest of the process, in a thread of its own.
///
/// # Errors
/// If the thread or its runtime cannot be made.
pub fn start(listener: TcpListener, identity: Identity, board: Arc<StatusBoard>) -> io::Result<()> {
    let source = Arc::new(Source { identity, board });
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serve = move || {
        // `axum::serve` never ends by itself.
        let _ = runtime.block_on(axum::serve(LimitedListener::new(listener), router(source)).into_future());
    };
    std::thread::Builder::new().name("http".to_owned()).spawn(serve)?;
    Ok(())
}

fn router(source: Arc<Source>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/digest", get(digest))
        .with_state(source)
}

async fn status(State(source): State<Arc<Source>>) -> Response {
    match source.ask().await {
        Ok(snapshot) => Json(StatusReport::new(&source.identity, &snapshot)).into_response(),
        Err(stale) => {
            let report = |snapshot: &CoreSnapshot| StatusReport::new(&source.identity, snapshot);
            let last = stale.last.as_ref();
            let body = json!({
                "error": core_is_silent(),
                "id": source.identity.id,
                "last_age_ms": last.map(|(_, age)| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
                "last": last.map(|(snapshot, _)| report(snapshot)),
            });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

async fn healthy(State(source): State<Arc<Source>>) -> Response {
    verdict(match source.ask().await {
        Ok(snapshot) => snapshot.driver.stopped.clone().map_or(Ok(()), Err),
        Err(_) => Err(core_is_silent()),
    })
}

async fn ready(State(source): State<Arc<Source>>) -> Response {
    verdict(match source.ask().await {
        Ok(snapshot) => readiness(&snapshot),
        Err(_) => Err(core_is_silent()),
    })
}

async fn digest(State(source): State<Arc<Source>>) -> Response {
    match source.board.ask_digest(DIGEST_TIME).await {
        Some(StateDigest { position, digest }) => {
            Json(json!({ "position": position, "digest": digest.to_string() })).into_response()
        }
        None => {
            let reason = format!("no digest came within {} s\n", DIGEST_TIME.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
    }
}

fn readiness(snapshot: &CoreSnapshot) -> Result<(), String> {
    if let Some(reason) = &snapshot.driver.stopped {
        return Err(reason.clone());
    }
    match &snapshot.driver.forming {
        FormingStatus::Forming { waiting_for } if waiting_for.is_empty() => Err("forming".to_owned()),
        FormingStatus::Forming { waiting_for } => {
            let ids: Vec<String> = waiting_for.iter().map(ToString::to_string).collect();
            Err(format!("forming: waiting for replicas {}", ids.join(", ")))
        }
        FormingStatus::Unbound { reason } => Err(format!("unbound: {reason}")),
        FormingStatus::Formed if snapshot.driver.leader.is_none() => Err("no leader is known".to_owned()),
        FormingStatus::Formed => Ok(()),
    }
}

fn core_is_silent() -> String {
    format!("the core did not answer within {} ms", CORE_ANSWER_TIME.as_millis())
}

fn verdict(verdict: Result<(), String>) -> Response {
    match verdict {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::testing::{identity, snapshot};
    use quorate_framework::{Digest, Position, ReplicaId};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Starts a server over a core that answers as long as `alive` says.
    fn serve(alive: &Arc<AtomicBool>, answer: impl Fn() -> CoreSnapshot + Send + Sync + 'static) -> SocketAddr {
        let alive = Arc::clone(alive);
        let board = Arc::new_cyclic(|board: &std::sync::Weak<StatusBoard>| {
            let (board, answer) = (board.clone(), Arc::new(answer));
            StatusBoard::new(Box::new(move || {
                if let Some(board) = board.upgrade().filter(|_| alive.load(Ordering::Relaxed)) {
                    board.publish(|| answer());
                    if board.takes_digest_order() {
                        board.answer_digest(StateDigest { position: Position(5), digest: Digest([0xab; 32]) });
                    }
                }
            }))
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        start(listener, identity(), board).unwrap();
        address
    }

    fn get(address: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[test]
    fn a_living_core_is_reported_and_healthy_and_ready() {
        let alive = Arc::new(AtomicBool::new(true));
        let address = serve(&alive, || snapshot(5));
        let (code, body) = get(address, "/status");
        let report: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &report["positions"]["executed"]), (200, &json!(5)));
        assert_eq!(get(address, "/healthz"), (200, "ok\n".to_owned()));
        assert_eq!(get(address, "/readyz"), (200, "ok\n".to_owned()));
        assert_eq!(get(address, "/nothing").0, 404);
    }

    #[test]
    fn the_digest_of_the_state_is_given_with_its_position() {
        let address = serve(&Arc::new(AtomicBool::new(true)), || snapshot(5));
        let (code, body) = get(address, "/digest");
        let report: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, report), (200, json!({ "position": 5, "digest": "ab".repeat(32) })));
    }

    #[test]
    fn a_core_that_hangs_is_said_to_hang_with_the_age_of_its_last_report() {
        let alive = Arc::new(AtomicBool::new(true));
        let address = serve(&alive, || snapshot(5));
        assert_eq!(get(address, "/healthz").0, 200);
        alive.store(false, Ordering::Relaxed);
        let (code, body) = get(address, "/status");
        let report: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(code, 503);
        assert_eq!(report["error"], core_is_silent());
        assert!(report["last_age_ms"].as_u64().unwrap() >= 1_000, "{report}");
        assert_eq!(report["last"]["positions"]["executed"], 5);
        assert_eq!(get(address, "/healthz").0, 503);
    }

    #[test]
    fn a_replica_without_leader_or_members_is_healthy_but_not_ready_and_says_why() {
        let alive = Arc::new(AtomicBool::new(true));
        let address = serve(&alive, || {
            let mut snapshot = snapshot(0);
            snapshot.driver.leader = None;
            snapshot
        });
        assert_eq!(get(address, "/healthz").0, 200);
        assert_eq!(get(address, "/readyz"), (503, "no leader is known\n".to_owned()));
        let address = serve(&alive, || {
            let mut snapshot = snapshot(0);
            snapshot.driver.forming = FormingStatus::Forming { waiting_for: vec![ReplicaId(3), ReplicaId(4)] };
            snapshot
        });
        assert_eq!(get(address, "/readyz"), (503, "forming: waiting for replicas 3, 4\n".to_owned()));
        let address = serve(&alive, || {
            let mut snapshot = snapshot(0);
            snapshot.driver.stopped = Some("safety: broken".to_owned());
            snapshot
        });
        assert_eq!(get(address, "/healthz"), (503, "safety: broken\n".to_owned()));
    }

    #[test]
    fn connections_that_say_nothing_or_never_read_their_answers_keep_nobody_out() {
        let alive = Arc::new(AtomicBool::new(true));
        let address = serve(&alive, || snapshot(5));
        let questions = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20_000);
        for asks in [false, true] {
            let mut others = Vec::new();
            for _ in 0..3 * limited::CONNECTIONS {
                let mut stream = TcpStream::connect(address).unwrap();
                if asks {
                    stream.set_nonblocking(true).unwrap();
                    // As much as the socket takes: more answers than it takes back.
                    let _ = stream.write(questions.as_bytes());
                }
                others.push(stream);
            }
            let before = std::time::Instant::now();
            assert_eq!(get(address, "/healthz").0, 200);
            assert!(
                before.elapsed() < Duration::from_secs(9),
                "others make room, nobody waits for the end of their lives"
            );
        }
    }
}
