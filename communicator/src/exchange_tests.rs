use super::*;
use crate::agreement::Agreement;
use crate::handshake::Identity;
use quorate_framework::{MemberClaim, ReplicaId};

fn identity(replica: u32, settings: &[(&str, &str)]) -> Identity {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Identity {
        cluster: ClusterId([1; 16]),
        replica: ReplicaId(replica),
        members: [1, 2, 3].map(ReplicaId).into(),
        agreement: Agreement { consensus: "raft".into(), settings, ..Agreement::default() },
    }
}

fn code(acceptor: &Identity, hello: &Hello) -> Option<RefusalCode> {
    acceptor.judge(hello).err().map(|refusal| refusal.code)
}

#[test]
fn each_wrong_dialler_is_refused_by_kind() {
    let two = identity(2, &[]);
    let claim = MemberClaim::default();
    let right = identity(3, &[]).hello(ReplicaId(2), claim);
    assert_eq!(code(&two, &right), None);
    assert_eq!(
        code(&two, &Hello { cluster: Some(ClusterId([9; 16])), ..right.clone() }),
        Some(RefusalCode::WrongCluster)
    );
    assert_eq!(code(&two, &Hello { cluster: None, ..right }), Some(RefusalCode::WrongCluster));
    let hello = |from: u32, to: u32| identity(from, &[]).hello(ReplicaId(to), claim);
    assert_eq!(code(&two, &hello(3, 1)), Some(RefusalCode::WrongReplica));
    assert_eq!(code(&two, &hello(2, 2)), Some(RefusalCode::SelfDial));
    assert_eq!(code(&two, &hello(2, 1)), Some(RefusalCode::SelfDial));
    assert_eq!(code(&two, &hello(4, 2)), Some(RefusalCode::UnknownReplica));
    assert_eq!(code(&two, &hello(1, 2)), Some(RefusalCode::WrongDirection));
    let pbft =
        Identity { agreement: Agreement { consensus: "pbft".into(), ..Agreement::default() }, ..identity(3, &[]) };
    assert_eq!(code(&two, &pbft.hello(ReplicaId(2), claim)), Some(RefusalCode::SettingsDiffer));
    let pulls = |from: &Identity, to: u32| from.hello_for_transfer(ReplicaId(to), claim);
    assert_eq!(code(&two, &pulls(&identity(1, &[]), 2)), None, "whoever has the higher id");
    assert_eq!(code(&two, &pulls(&identity(3, &[]), 2)), None);
    assert_eq!(code(&two, &pulls(&identity(3, &[]), 1)), Some(RefusalCode::WrongReplica));
    assert_eq!(code(&two, &pulls(&identity(2, &[]), 2)), Some(RefusalCode::SelfDial));
    assert_eq!(code(&two, &pulls(&identity(4, &[]), 2)), Some(RefusalCode::UnknownReplica));
    assert_eq!(code(&two, &pulls(&pbft, 2)), Some(RefusalCode::SettingsDiffer));
    let client = |cluster| Hello { cluster, role: Role::Client };
    assert_eq!(code(&two, &client(None)), None);
    assert_eq!(code(&two, &client(Some(ClusterId([9; 16])))), Some(RefusalCode::WrongCluster));
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (dialler, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (dialler.expect("connected"), accepted.expect("accepted").0)
}

fn reader() -> FrameReader {
    FrameReader::new(crate::reader::Expected::Handshake)
}

#[tokio::test]
async fn both_sides_learn_the_settings_that_differ_by_name() {
    let (mut dialler, mut acceptor) = pair().await;
    let (one, two) = (identity(1, &[("lease_enabled", "on")]), identity(2, &[("lease_enabled", "off")]));
    let dialling = async {
        let hello = two.hello(ReplicaId(1), MemberClaim::default());
        ask_peer(&mut dialler, &mut reader(), &hello).await
    };
    let accepting = async {
        let hello = accept_hello(&mut acceptor, &mut reader()).await.expect("a hello");
        send_refusal(&mut acceptor, one.judge(&hello).expect_err("they differ")).await
    };
    let (there, here) = tokio::join!(dialling, accepting);
    let (Err(HandshakeError::RefusedByOther(there)), HandshakeError::Refused(here)) = (there, here) else {
        panic!("both sides know of the refusal");
    };
    assert_eq!(there, here);
    assert_eq!(there.code, RefusalCode::SettingsDiffer);
    let wanted = "settings of replica 2 (there) and replica 1 (here) must agree and differ: lease_enabled: \"off\" there, \"on\" here";
    assert_eq!(there.reason, wanted);
}

#[tokio::test]
async fn the_acceptor_learns_why_the_dialler_does_not_keep_the_connection() {
    let (mut dialler, mut acceptor) = pair().await;
    let (one, two) = (identity(1, &[]), identity(2, &[]));
    let refusal = Refusal { code: RefusalCode::NotAdmitted, reason: "not mine".into() };
    let dialling = async {
        let hello = two.hello(ReplicaId(1), MemberClaim::default());
        let about = ask_peer(&mut dialler, &mut reader(), &hello).await.expect("welcome");
        (about, confirm(&mut dialler, Err(refusal.clone())).await)
    };
    let accepting = async {
        let mut reader = reader();
        accept_hello(&mut acceptor, &mut reader).await.expect("a hello");
        welcome_peer(&mut acceptor, &mut reader, one.about(MemberClaim::default())).await
    };
    let ((about, there), here) = tokio::join!(dialling, accepting);
    assert_eq!(about, one.about(MemberClaim::default()));
    assert_eq!(there, Err(HandshakeError::Refused(refusal.clone())));
    assert_eq!(here, Err(HandshakeError::RefusedByOther(refusal)));
}

#[tokio::test]
async fn a_dialler_of_another_version_is_told_so() {
    let (mut dialler, mut acceptor) = pair().await;
    let dialling = async {
        let mut body = MAGIC.to_vec();
        body.extend_from_slice(&99u32.to_le_bytes());
        let header = FrameHeader {
            lane: Lane::Control,
            kind: FrameKind::Hello,
            more: false,
            continued: false,
            head_length: 0,
            body_length: body.len(),
            total_length: body.len(),
        };
        let frame = [&header.encode([&body[..]])[..], &body].concat();
        dialler.write_all(&frame).await.expect("written");
        let body = read(&mut dialler, &mut reader(), FrameKind::Answer).await.expect("an answer");
        control::decode::<Answer>("answer", &body).expect("understood")
    };
    let mut accepting_reader = reader();
    let (answer, here) = tokio::join!(dialling, accept_hello(&mut acceptor, &mut accepting_reader));
    let Answer::Refused(refusal) = answer else { panic!("refused") };
    assert_eq!(refusal.code, RefusalCode::Version);
    assert_eq!(refusal.reason, "the other side speaks version 99, this side 1");
    assert_eq!(here, Err(HandshakeError::Refused(refusal)));
}

#[tokio::test]
async fn what_is_no_handshake_is_an_error_and_not_a_wait() {
    for noise in [&b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"[..], &[0; 64], &[255; 64]] {
        let (mut dialler, mut acceptor) = pair().await;
        dialler.write_all(noise).await.expect("written");
        let refused = accept_hello(&mut acceptor, &mut reader()).await;
        assert!(matches!(refused, Err(HandshakeError::Wire(_))), "{refused:?}");
    }
}
