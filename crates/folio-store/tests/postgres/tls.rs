//! TLS: which certificates are accepted for which host, and the errors otherwise.

use std::path::Path;

use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{ErrorKind, Store, StoreError};
use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::contract::scene::Scene;

/// Runs `openssl` as the user of the server, in its folder.
fn openssl(cluster: &Cluster, arguments: &str) {
    let mut command = cluster.at("openssl");
    let done = command.args(arguments.split(' ')).output().expect("openssl");
    assert!(
        done.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// An authority: a key and a certificate in the folder of the server.
fn authority(cluster: &Cluster, name: &str) {
    let folder = cluster.data();
    let at = |suffix: &str| folder.join(format!("{name}.{suffix}")).display().to_string();
    let (key, certificate) = (at("key"), at("pem"));
    openssl(
        cluster,
        &format!(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {key} -out {certificate} \
             -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        ),
    );
}

/// A server with a certificate for `localhost`, which the authority `ours` has signed.
fn server() -> Cluster {
    let cluster = Cluster::start(ClusterOptions::default());
    authority(&cluster, "ours");
    authority(&cluster, "theirs");
    let folder = cluster.data().display().to_string();
    openssl(
        &cluster,
        &format!(
            "req -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
             -keyout {folder}/server.key -out {folder}/server.csr"
        ),
    );
    openssl(
        &cluster,
        &format!(
            "x509 -req -in {folder}/server.csr -CA {folder}/ours.pem -CAkey {folder}/ours.key -CAcreateserial -days 2 \
             -copy_extensions copy -out {folder}/server.crt"
        ),
    );
    cluster
}

fn open(cluster: &Cluster, host: &str, settings: &str) -> Result<std::sync::Arc<PostgresStore>, StoreError> {
    let url = cluster
        .url()
        .replace("127.0.0.1", host)
        .replace("sslmode=disable", settings);
    PostgresStore::open(&OpenOptions::at(url))
}

/// The error when opening is refused.
fn refused(cluster: &Cluster, host: &str, settings: &str) -> String {
    let error = open(cluster, host, settings).expect_err(settings);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error.to_string()
}

fn root(path: &Path) -> String {
    format!("sslmode=verify-full&sslrootcert={}", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_is_accepted_only_for_its_host_and_trusted_authority() {
    let cluster = server();
    let (ours, theirs) = (
        root(&cluster.data().join("ours.pem")),
        root(&cluster.data().join("theirs.pem")),
    );
    let told = refused(&cluster, "localhost", &ours);
    assert!(
        told.contains("the server does not offer TLS, which the URL requires"),
        "{told}"
    );
    cluster.ask("ALTER SYSTEM SET ssl = on");
    cluster.ask("SELECT pg_reload_conf()");
    // The new settings hold for connections that are made once the server has read them.
    while cluster.ask("SHOW ssl") != "on" {}
    let store = open(&cluster, "localhost", &ours).expect("a store");
    let scene = Scene::on(std::sync::Arc::<PostgresStore>::clone(&store));
    let id = scene.a_note("behind TLS").await;
    assert_eq!(scene.read(id).await.fields.title, "behind TLS");
    let sql =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'folio'";
    assert_eq!(cluster.ask(sql), "t");
    assert_eq!(store.check().await.expect("a checkup").problems, Vec::<String>::new());
    let told = refused(&cluster, "127.0.0.1", &ours);
    assert!(
        told.contains("its certificate is for another host than the URL names"),
        "{told}"
    );
    for settings in [theirs.as_str(), "sslmode=require"] {
        let told = refused(&cluster, "localhost", settings);
        assert!(
            told.contains("its certificate is not signed by a trusted authority"),
            "{told}"
        );
    }
}
