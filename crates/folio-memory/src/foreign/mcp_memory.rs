//! Importing the knowledge graph of the Model Context Protocol's memory server: one line of JSON per entity and
//! relation.

use serde_json::{Map, Value, json};

use super::{Collector, Destination, Foreign, Said, object, text};
use crate::entry::{Confidence, EntryKind, Owner, Status, Tag};
use crate::id::PageId;
use crate::link::{Link, Relation};
use crate::page::{PageFields, PageRole};
use crate::warning::Invalid;

/// Reads the lines of `text`. An entity becomes a page with an entry for each of its observations. A relation becomes
/// an observation of the entity that it starts from, and a link between the two pages.
///
/// An unusable line is refused by its number. A relation to something that is not an entity becomes an observation
/// without a link.
#[must_use]
pub fn mcp_memory(lines: &str, to: &Destination) -> Foreign {
    let mut gathered = Collector::new("mcp-memory", to);
    let mut relations = Vec::new();
    for (number, line) in (1..).zip(lines.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let name = format!("line {number}");
        let mut record = match object(line, "line") {
            Ok(record) => record,
            Err(invalid) => {
                gathered.refuse(name, invalid);
                continue;
            }
        };
        let record_type = text(&mut record, "type");
        let result = match record_type.as_str() {
            "entity" => entity(&mut gathered, record),
            "relation" => {
                relations.push((name.clone(), record));
                Ok(())
            }
            other => {
                let message = format!("{other:?} is neither entity nor relation");
                Err(Invalid::new("foreign_malformed", "type", message))
            }
        };
        if let Err(invalid) = result {
            gathered.refuse(name, invalid);
        }
    }
    for (name, record) in relations {
        if let Err(invalid) = relation(&mut gathered, record) {
            gathered.refuse(name, invalid);
        }
    }
    gathered.foreign
}

fn required(record: &mut Map<String, Value>, key: &str) -> Result<String, Invalid> {
    Some(text(record, key))
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| Invalid::new("foreign_malformed", key, "is missing or not a text"))
}

fn entity(gathered: &mut Collector<'_>, mut record: Map<String, Value>) -> Result<(), Invalid> {
    let name = required(&mut record, "name")?;
    let entity_type = text(&mut record, "entityType");
    if gathered.pages.contains(&gathered.page_id(&name)) {
        let message = format!("the entity {name:?} occurs twice");
        return Err(Invalid::new("item_twice", "name", message));
    }
    let mut fields = PageFields::new(PageRole::Note, name.clone(), Owner::agent());
    fields.tags.extend(Tag::parse(&entity_type));
    let observations = record.remove("observations");
    fields.props = Some(json!({"entity_type": entity_type, "brought_from": "mcp-memory", "rest": record}));
    let page = gathered.page(&name, fields);
    let observations = observations.as_ref().and_then(Value::as_array);
    for observation in observations.into_iter().flatten() {
        // Some other servers write objects here.
        let statement = observation.as_str().or_else(|| observation.get("content")?.as_str());
        let Some(statement) = statement.filter(|statement| !statement.trim().is_empty()) else {
            let message = "is not a text";
            gathered.refuse(name.clone(), Invalid::new("foreign_malformed", "observations", message));
            continue;
        };
        observe(
            gathered,
            page,
            &name,
            statement.to_owned(),
            vec![entity_type.clone()],
            json!({"entity": name}),
        );
    }
    Ok(())
}

fn relation(gathered: &mut Collector<'_>, mut record: Map<String, Value>) -> Result<(), Invalid> {
    let from = required(&mut record, "from")?;
    let to = required(&mut record, "to")?;
    let relation_type = required(&mut record, "relationType")?;
    let (src, dst) = (gathered.page_id(&from), gathered.page_id(&to));
    if !gathered.pages.contains(&src) {
        let message = format!("there is no entity {from:?}");
        return Err(Invalid::new("end_missing", "from", message));
    }
    let context = json!({"entity": from, "relation": {"type": relation_type, "to": to}});
    let statement = format!("{from} {relation_type} {to}");
    observe(
        gathered,
        src,
        &from,
        statement.clone(),
        vec!["relation".to_owned()],
        context,
    );
    if !gathered.pages.contains(&dst) {
        return Err(Invalid::new("end_missing", "to", format!("there is no entity {to:?}")));
    }
    let link = Link {
        src: src.to_string(),
        rel: Relation::References,
        dst: dst.to_string(),
    };
    gathered.add_link(statement, link);
    Ok(())
}

fn observe(
    gathered: &mut Collector<'_>,
    page: PageId,
    entity: &str,
    statement: String,
    tags: Vec<String>,
    context: Value,
) {
    let id = gathered.id(entity, &statement);
    let count_before = gathered.foreign.items.len();
    gathered.add(
        id,
        Said {
            name: format!("{entity}: {statement}"),
            kind: EntryKind::Observation,
            page,
            title: "",
            body: statement,
            status: Status::Active,
            tags: tags.into_iter().filter(|tag| !tag.is_empty()).collect(),
            times: (None, None),
            rest: Map::new(),
            earlier: None,
        },
    );
    if let Some(item) = gathered.foreign.items.get_mut(count_before) {
        // The text of an observation needs no title.
        item.new.fields.title.clear();
        item.new.fields.type_name = Some("observation".to_owned());
        // How sure its writer was is not known (M7.3.21).
        item.new.fields.confidence = Some(Confidence::DEFAULT);
        item.new.fields.context = Some(context);
    }
}
