//! Brings in the policy of a space.

use folio_memory::keeping::Redaction;
use folio_memory::{Change, SpacePolicy};

use super::super::super::{Workspace, WorkspaceError};
use super::super::report::Fate;
use super::Incoming;

impl Workspace {
    /// Takes over the policy of the file if none was set here, and otherwise only the types that are not registered
    /// here. A file never weakens the redaction of texts.
    pub(super) async fn import_policy(
        &self,
        incoming: &mut Incoming<'_>,
        mut new_policy: SpacePolicy,
    ) -> Result<(), WorkspaceError> {
        let report = &mut incoming.report;
        if let Err(invalid) = new_policy.check() {
            report.refuse("policy", &invalid);
            return Ok(());
        }
        let here = self.policy().await?;
        if here.redaction != new_policy.redaction && new_policy.redaction != Redaction::Pii {
            new_policy.redaction = here.redaction;
            let message = format!("redaction stays {}", here.redaction.as_str());
            report.remark(Fate::Changed, "policy", "redaction_kept", message);
        }
        if *here.document() == new_policy {
            report.present += 1;
            return Ok(());
        }
        if here.version() == 0 {
            report.policy = true;
            if !incoming.options.dry_run {
                let reason = Some("brought in from a file".to_owned());
                self.set_policy(incoming.actor, new_policy, Some(0), reason).await?;
            }
            return Ok(());
        }
        let mut rest = new_policy.clone();
        rest.types = here.types.clone();
        let mut differs = rest != *here.document();
        let mut types = here.types.clone();
        for (name, as_type) in new_policy.types.iter() {
            match here.types.get(name) {
                Some(known) => differs |= known != as_type,
                None if types.is_full() => differs = true,
                None => {
                    types.register(name, as_type.clone());
                    incoming.changes.push(Change::RegisterType {
                        name: name.to_owned(),
                        as_type: as_type.clone(),
                    });
                }
            }
        }
        if differs {
            let message = "the policy of this space stays as it is";
            incoming.report.remark(Fate::Differs, "policy", "differs", message);
        }
        self.write_batch(incoming).await
    }
}
