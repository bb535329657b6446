"""Hooks of the site's build (mkdocs.yml): pages that live beside the code, and links out of docs/.

A page is plain Markdown whose links are right where it lies, so that it reads well in a clone and on a
forge. Here they are turned into links of the site, or to the project's page where a file is no page.
"""

import os
import pathlib
import re

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files outside docs/ that are pages, and where.
BESIDE = {
    "pager/README.md": "manual/pager.md",
    "python/README.md": "manual/python.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "data/README.md": "project/sample-trace.md",
}
HOME = {uri: path for path, uri in BESIDE.items()}
log = get_plugin_logger("coldset")


def on_files(files, config):
    for path, uri in BESIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def uri_of(path):
    """Where a file of the project is in the site, or None."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return BESIDE.get(path)


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    source = pathlib.PurePosixPath(HOME.get(here, f"docs/{here}"))

    def link(found):
        text, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, hash_, anchor = target.partition("#")
        wanted = os.path.normpath(source.parent / path)
        if (uri := uri_of(wanted)) and files.get_file_from_path(uri):
            to = os.path.relpath(uri, pathlib.PurePosixPath(here).parent)
            return f"[{text}]({to}{hash_}{anchor})"
        if uri and (ROOT / wanted).is_dir() and files.get_file_from_path(f"{uri.rstrip('/')}/README.md"):
            to = os.path.relpath(f"{uri.rstrip('/')}/README.md", pathlib.PurePosixPath(here).parent)
            return f"[{text}]({to})"
        if not (ROOT / wanted).exists():
            log.warning("%s: a link to %s, which is not there", source, target)
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{wanted}{hash_}{anchor})"

    parts = re.split(r"(?ms)(^ *```.*?^ *```)", markdown)
    parts[::2] = [re.sub(r"\[([^\]\[]*)\]\(([^()\s]+)\)", link, part) for part in parts[::2]]
    text = "".join(parts)
    if here == "README.md":
        text += "\n\n" + "".join(
            f'<a href="api/coldset_{name}/index.html">API of the {name}</a><br>\n'
            for name in ("engine", "machine", "lab", "pager", "play", "guest")
        )
    return text


def on_post_page(output, page, config):
    """The theme takes one script from the network; it is in docs/assets."""
    here = pathlib.PurePosixPath(page.file.src_uri).parent
    return local(output, os.path.relpath("assets/iframe-worker.js", here))


def on_post_template(output, template_name, config):
    return local(output, "assets/iframe-worker.js") if template_name.endswith(".html") else output


def local(output, script):
    shim = "https://unpkg.com/iframe-worker/shim"
    if shim not in output:
        log.warning("the theme no longer asks for %s; see docs/assets", shim)
    return output.replace(shim, script)
