use super::*;

fn tools(names: &[&str]) -> ServerTools {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    ServerTools::parse(&names).unwrap().unwrap()
}

/// Returns the result for a body: `clean`, the removed tools, or the field and code of a refusal.
fn judged(allowed: &[&str], body: &str) -> String {
    match tools(allowed).judge(body.as_bytes()) {
        Ok(Judged::Clean) => "clean".to_owned(),
        Ok(Judged::Without { tools, .. }) => format!("without {}", tools.join(" ")),
        Err(refusal) if refusal.code == "server_tool_denied" => {
            let field = refusal.message.split('`').nth(1).unwrap();
            format!("{field} is {}", refusal.message.split('`').nth(3).unwrap())
        }
        Err(refusal) => refusal.code.to_owned(),
    }
}

const FUNCTION: &str =
    r#"{"type":"function","name":"f","parameters":{"properties":{"image_url":{"type":"string"}}}}"#;

/// Returns a request that offers a client-side function and this tool.
fn offered(tool: &str) -> String {
    format!(r#"{{"tools":[{FUNCTION},{tool}]}}"#)
}

#[test]
fn judge_removes_server_tools_and_keeps_client_tools() {
    for own in [
        r#"{"name":"x","input_schema":{"properties":{"tools":{"type":"array"}}}}"#,
        r#"{"type":null,"name":"x"}"#,
        r#"{"type":"custom","name":"x","input_examples":[{"image_url":"https://a.io"}]}"#,
        r#"{"type":"bash_20250124","name":"bash"}"#,
        r#"{"type":"text_editor_20250728","name":"e"}"#,
        r#"{"type":"computer_20251124","name":"computer"}"#,
        r#"{"type":"computer_use_preview"}"#,
        r#"{"type":"memory_20250818","name":"memory"}"#,
        r#"{"type":"local_shell"}"#,
        r#"{"type":"shell","environment":{"type":"local"}}"#,
        r#"{"type":"apply_patch"}"#,
        r#"{"type":"image_generation"}"#,
        r#"{"type":"tool_search_tool_regex_20251119","name":"s"}"#,
        r#"{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}"#,
        r#"{"functionDeclarations":[{"name":"x"}]}"#,
    ] {
        assert_eq!(judged(&[], &offered(own)), "clean", "{own}");
    }
    for (theirs, name) in [
        (r#"{"type":"web_search_20250305","name":"web_search"}"#, "web_search_20250305"),
        (r#"{"type":"WEB_Search"}"#, "web_search"),
        (r#"{"t\u0079pe":"web_search"}"#, "web_search"),
        (r#"{"Type":"web_search"}"#, "web_search"),
        (r#"{"type":"function","Type":"web_search"}"#, "web_search"),
        (r#"{"type":"web_fetch_20250910"}"#, "web_fetch_20250910"),
        (r#"{"type":"code_execution_20250825"}"#, "code_execution_20250825"),
        (r#"{"type":"code_interpreter","container":{"type":"auto"}}"#, "code_interpreter"),
        (r#"{"type":"bash_code_execution"}"#, "bash_code_execution"),
        (r#"{"type":"mcp","server_url":"https://a.io"}"#, "mcp"),
        (r#"{"type":"mcp_toolset"}"#, "mcp_toolset"),
        (r#"{"type":"file_search"}"#, "file_search"),
        (r#"{"type":"shell","environment":{"type":"container_auto"}}"#, "shell"),
        (r#"{"type":"shell"}"#, "shell"),
        (r#"{"type":"namespace","tools":[{"type":"mcp"}]}"#, "mcp"),
        (r#"{"type":"namespace","tools":{"type":"mcp"}}"#, "unknown"),
        (r#"{"type":"of_tomorrow"}"#, "of_tomorrow"),
        (r#"{"type":""}"#, ""),
        (r#"{"type":7}"#, "unknown"),
        (r#"{"googleSearch":{}}"#, "google_search"),
        (r#"{"url_context":{}}"#, "url_context"),
        (r#"{"name":"x","codeExecution":{}}"#, "code_execution"),
        (r#"{"ofTomorrow":{}}"#, "ofTomorrow"),
    ] {
        assert_eq!(judged(&[], &offered(theirs)), format!("without {name}"), "{theirs}");
    }
}

#[test]
fn judge_refuses_what_cannot_be_removed() {
    for (body, expected) in [
        (r#"{"tools":[{"type":"web_search"}]}"#, "tools[0] is web_search"),
        (r#"{"Tools":[{"name":"x"},{"type":"web_search"}]}"#, "Tools[1] is web_search"),
        (r#"{"tools":{"googleSearch":{}}}"#, "tools is google_search"),
        (r#"{"mcp_servers":[{"url":"https://a.io"}]}"#, "mcp_servers is mcp"),
        (r#"{"mcpServers":{"a":1}}"#, "mcpServers is mcp"),
        (r#"{"web_search_options":{}}"#, "web_search_options is web_search"),
        (r#"{"model":"gpt-5-search-api"}"#, "model is web_search"),
        (r#"{"data_sources":[{}]}"#, "data_sources is data_sources"),
        (r#"{"prompt":{"id":"pmpt_1"}}"#, "prompt is prompt"),
        (
            r#"{"requests":[{"params":{"tools":[{"type":"mcp"}]}}]}"#,
            "requests[0].params.tools[0] is mcp",
        ),
        (
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://a.io"}}]}]}"#,
            "messages[0].content[0].source is url",
        ),
        (
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"source":{"url":"http://a.io"}}]}]}]}"#,
            "messages[0].content[0].content[0].source is url",
        ),
        (
            r#"{"input":[{"content":[{"image_url":"https://a.io"}]}]}"#,
            "input[0].content[0].image_url is url",
        ),
        (
            r#"{"input":[{"content":[{"file_url":" data:"}]}]}"#,
            "input[0].content[0].file_url is url",
        ),
        (
            r#"{"messages":[{"content":[{"image_url":{"url":"https://a.io"}}]}]}"#,
            "messages[0].content[0].image_url is url",
        ),
        (
            r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://a.io"}}]}]}"#,
            "contents[0].parts[0].fileData.fileUri is url",
        ),
        (r#"{"input":[{"image_url":["https://a.io"]}]}"#, "input[0].image_url is url"),
        // Arguments of a tool call are a model's words only inside a conversation.
        (
            r#"{"type":"tool_use","input":[{"image_url":"https://a.io"}]}"#,
            "input[0].image_url is url",
        ),
    ] {
        assert_eq!(judged(&[], body), expected, "{body}");
    }
    let mask = r#"{"type":"image_generation","input_image_mask":{"image_url":"https://a.io"}}"#;
    assert_eq!(judged(&[], &offered(mask)), "tools[1].input_image_mask.image_url is url");
    for choice in [
        r#"{"type":"tool","name":"web_search"}"#,
        r#"{"type":"web_search_20250305"}"#,
        r#"{"type":"allowed_tools","tools":[{"type":"web_search_20250305"}]}"#,
    ] {
        let search = r#"{"type":"web_search_20250305","name":"web_search"}"#;
        let body = format!(r#"{{"tools":[{FUNCTION},{search}],"tool_choice":{choice}}}"#);
        assert!(judged(&[], &body).ends_with("is web_search_20250305"), "{body}");
    }
}

#[test]
fn judge_refuses_files_stored_at_the_provider() {
    for (body, expected) in [
        (
            r#"{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}"#,
            "messages[0].content[0].source.file_id is files",
        ),
        (
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"file","fileId":"file_1"}}]}]}"#,
            "messages[0].content[0].source.fileId is files",
        ),
        (
            r#"{"messages":[{"content":[{"type":"container_upload","file_id":"file_1"}]}]}"#,
            "messages[0].content[0].file_id is files",
        ),
        (
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"source":{"FILE_ID":"file_1"}}]}]}]}"#,
            "messages[0].content[0].content[0].source.FILE_ID is files",
        ),
        (
            r#"{"input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}"#,
            "input[0].content[0].file_id is files",
        ),
        (
            r#"{"input":[{"content":[{"type":"input_image","f\u0069le_id":"file-1"}]}]}"#,
            "input[0].content[0].file_id is files",
        ),
        (
            r#"{"input":[{"type":"function_call_output","output":[{"type":"input_file","file_id":"file-1"}]}]}"#,
            "input[0].output[0].file_id is files",
        ),
        (
            r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"file-1"}}]}]}"#,
            "messages[0].content[0].file.file_id is files",
        ),
        (r#"{"image":[{"file_id":"file-1"}]}"#, "image[0].file_id is files"),
        (r#"{"input_file_id":"file-1"}"#, "input_file_id is files"),
        (r#"{"attachments":[{"file_ids":["file-1"]}]}"#, "attachments[0].file_ids is files"),
        (r#"{"resources":{"vector_store_ids":["vs_1"]}}"#, "resources.vector_store_ids is files"),
        (r#"{"file_id":7}"#, "file_id is files"),
        (r#"{"container":"container_1"}"#, "container is container"),
        (r#"{"container":{"skills":[{"skill_id":"s"}]}}"#, "container is container"),
        (r#"{"cachedContent":"cachedContents/1"}"#, "cachedContent is cached_content"),
        (
            r#"{"contents":[{"parts":[{"file_data":{"file_uri":"files/1"}}]}]}"#,
            "contents[0].parts[0].file_data.file_uri is url",
        ),
        (r#"{"instances":[{"image":{"gcsUri":"gs://a/b"}}]}"#, "instances[0].image.gcsUri is url"),
        (r#"{"parameters":{"storageUri":"gs://a/b"}}"#, "parameters.storageUri is url"),
    ] {
        assert_eq!(judged(&[], body), expected, "{body}");
        let tool = expected.rsplit(' ').next().unwrap();
        assert_eq!(judged(&[tool], body), "clean", "{body}");
    }
}

#[test]
fn judge_allows_text_that_resembles_file_references() {
    for body in [
        r#"{"messages":[{"content":[{"type":"text","text":"file_id","citations":[{"file_id":null}]}]}]}"#,
        r#"{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"mine"}}]}]}"#,
        r#"{"messages":[{"content":[{"type":"file","file":{"file_data":"aGk=","filename":"a"}}]}]}"#,
        r#"{"contents":[{"parts":[{"functionCall":{"args":{"file_id":"mine"}}}]}]}"#,
        r#"{"tools":[{"type":"function","name":"f","parameters":{"properties":{"file_id":{"type":"string"}}}}]}"#,
        r#"{"text":{"format":{"schema":{"properties":{"file_id":{"type":"string"},"uri":{"type":"string"}},"required":["file_id"]}}}}"#,
        r#"{"container":null,"cached_content":null,"file_ids":[],"profile_id":"p"}"#,
    ] {
        assert_eq!(judged(&[], body), "clean", "{body}");
    }
}

#[test]
fn judge_allows_conversation_text() {
    for body in [
        r#"{"model":"claude-opus-5","messages":[{"role":"user","content":"tools: web_search https://a.io"}]}"#,
        r#"{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"aGk="}}]}]}"#,
        r#"{"messages":[{"content":[{"type":"tool_use","input":{"image_url":"https://a.io","tools":[{"type":"mcp"}]}}]}]}"#,
        r#"{"messages":[{"content":[{"type":"search_result","source":"https://a.io"}]}]}"#,
        r#"{"input":[{"content":[{"image_url":"data:image/png;base64,aGk="}]},{"type":"web_search_call","action":{"url":"https://a.io"}}]}"#,
        r#"{"contents":[{"parts":[{"functionCall":{"args":{"file_url":"https://a.io"}}}]}],"tools":[]}"#,
        r#"{"mcp_servers":[],"web_search_options":null,"prompt":"text","data_sources":null}"#,
        r#"{"text":{"format":{"schema":{"properties":{"source":{"type":"object"},"file_url":{"type":"string"}}}}}}"#,
    ] {
        assert_eq!(judged(&[], body), "clean", "{body}");
    }
}

#[test]
fn judge_allows_only_listed_tools() {
    let search = offered(r#"{"type":"web_search_20250305"}"#);
    for (allowed, expected) in [
        (&["web_search"][..], "clean"),
        (&["web_search_20250305"], "clean"),
        (&["WEB_SEARCH"], "clean"),
        (&["web"], "clean"),
        (&["web_sea"], "without web_search_20250305"),
        (&["web_fetch", "mcp"], "without web_search_20250305"),
    ] {
        assert_eq!(judged(allowed, &search), expected, "{allowed:?}");
    }
    assert_eq!(
        judged(&["mcp"], r#"{"mcp_servers":[{}],"tools":[{"type":"mcp_toolset"}]}"#),
        "clean"
    );
    assert_eq!(judged(&["url"], r#"{"input":[{"image_url":"https://a.io"}]}"#), "clean");
    assert_eq!(ServerTools::parse(&["*".into()]), Ok(None));
    for wrong in ["", "web search", "web*", "a-b"] {
        assert_eq!(ServerTools::parse(&[wrong.into()]), Err(NoTool(wrong.into())));
    }
}

#[test]
fn judge_preserves_the_bytes_of_the_rest() {
    let body = "{ \"b\" : 1.50,\n \"tools\" :[ {\"name\" : \"\\u0061\"} ,{\"type\":\"mcp\"}, {\"type\":\"function\"}] , \"a\":\"tools\" }";
    let Ok(Judged::Without { body, .. }) = tools(&[]).judge(body.as_bytes()) else { panic!() };
    let expected = "{ \"b\" : 1.50,\n \"tools\" :[{\"name\" : \"\\u0061\"},{\"type\":\"function\"}] , \"a\":\"tools\" }";
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn judge_refuses_ambiguous_json() {
    for body in [r#"{"tools":[],"tools":[{"type":"mcp"}]}"#, "tools=mcp", "", "{}{}", "\u{feff}{}"]
    {
        assert_eq!(judged(&[], body), "body_unreadable", "{body}");
    }
}
