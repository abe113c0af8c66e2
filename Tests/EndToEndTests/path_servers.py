"""Real servers that read paths in ways of their own, each with a handler for /admin and one for /public.

    server = PathServer.start(name, directory)     one of SERVERS; a test skips by name what is not installed
    server.port

The handler of /admin answers with ADMIN, that of /public with PUBLIC; whatever else answers is neither. Every server
runs as an operator would set it up, at its most permissive where it has a choice (AllowEncodedSlashes, encodedSolidus):
the proxy must hold before either.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS
from origins import unused_port, wait_until_it_listens
from parents import let_others_read
from proxy import clean_environment

ADMIN, PUBLIC = b"handler-of-admin", b"handler-of-public"
# Tomcat and Jetty compile their source and start a virtual machine, on a loaded machine of one core.
START_SECONDS = 60

NGINX = """
worker_processes 1; daemon off; pid nginx.pid; error_log error.log;
events {{}}
http {{
  access_log off; merge_slashes on;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server {{
    listen 127.0.0.1:{port};
    location /admin {{ return 200 "handler-of-admin"; }}
    location /public {{ return 200 "handler-of-public"; }}
    location / {{ return 404; }}
  }}
}}
"""

APACHE = """
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {directory}/apache.pid
ErrorLog {directory}/error.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule dir_module {modules}/mod_dir.so
DocumentRoot {directory}/root
AllowEncodedSlashes On
AcceptPathInfo On
MergeSlashes On
Alias /admin {directory}/root/admin/index.txt
Alias /public {directory}/root/public/index.txt
<Directory {directory}/root>
  Require all granted
</Directory>
"""

LIGHTTPD = """
server.document-root = "{directory}/root"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{directory}/error.log"
server.modules = ("mod_rewrite", "mod_access")
index-file.names = ("index.txt")
$HTTP["url"] =~ "^/admin" {{ url.rewrite-once = (".*" => "/admin/index.txt") }}
$HTTP["url"] =~ "^/public" {{ url.rewrite-once = (".*" => "/public/index.txt") }}
"""

FLASK = """
import sys
from flask import Flask
app = Flask(__name__)
@app.route("/admin", methods=["GET"])
@app.route("/admin/", methods=["GET"])
@app.route("/admin/<path:rest>", methods=["GET"])
def admin(rest=""): return "handler-of-admin"
@app.route("/public")
@app.route("/public/")
@app.route("/public/<path:rest>")
def public(rest=""): return "handler-of-public"
if __name__ == "__main__": app.run("127.0.0.1", int(sys.argv[1]))
"""

AIOHTTP = """
import sys
from aiohttp import web
async def admin(request): return web.Response(text="handler-of-admin")
async def public(request): return web.Response(text="handler-of-public")
app = web.Application()
for name, handler in (("admin", admin), ("public", public)):
    app.router.add_get("/" + name, handler)
    app.router.add_get("/" + name + "/{rest:.*}", handler)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""

EXPRESS = """
const express = require("express");
const app = express();
app.use("/admin", (request, response) => response.send("handler-of-admin"));
app.use("/public", (request, response) => response.send("handler-of-public"));
app.listen(Number(process.argv[2]), "127.0.0.1");
"""

TOMCAT = """
import java.io.File;
import jakarta.servlet.http.*;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
public class Server {
  static class Says extends HttpServlet {
    private final String text;
    Says(String text) { this.text = text; }
    @Override protected void doGet(HttpServletRequest asked, HttpServletResponse answer) throws java.io.IOException {
      answer.getWriter().print(text);
    }
  }
  public static void main(String[] arguments) throws Exception {
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(arguments[1]);
    tomcat.setHostname("127.0.0.1");
    tomcat.setPort(Integer.parseInt(arguments[0]));
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    tomcat.getConnector().setEncodedSolidusHandling("decode");
    tomcat.getConnector().setAllowBackslash(true);
    Context context = tomcat.addContext("", new File(arguments[1]).getAbsolutePath());
    for (String name : new String[] {"admin", "public"}) {
      Tomcat.addServlet(context, name, new Says("handler-of-" + name));
      context.addServletMappingDecoded("/" + name + "/*", name);
    }
    tomcat.start();
    tomcat.getServer().await();
  }
}
"""

JETTY = """
import java.net.InetSocketAddress;
import javax.servlet.http.*;
import org.eclipse.jetty.servlet.*;
public class Server {
  static class Says extends HttpServlet {
    private final String text;
    Says(String text) { this.text = text; }
    @Override protected void doGet(HttpServletRequest asked, HttpServletResponse answer) throws java.io.IOException {
      answer.getWriter().print(text);
    }
  }
  public static void main(String[] arguments) throws Exception {
    var server = new org.eclipse.jetty.server.Server(
        new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    ServletContextHandler context = new ServletContextHandler();
    context.setContextPath("/");
    for (String name : new String[] {"admin", "public"}) {
      context.addServlet(new ServletHolder(new Says("handler-of-" + name)), "/" + name + "/*");
    }
    server.setHandler(context);
    server.start();
    server.join();
  }
}
"""

TOMCAT_JARS = "annotations-api api catalina coyote juli servlet-api util util-scan jni jaspic-api el-api".split()


def jars(pattern: str) -> str:
    return ":".join(str(jar) for jar in sorted(Path("/usr/share/java").glob(pattern)))


def need_program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    return found or pytest.skip(f"not installed: {name}")


def need_file(path: str, package: str) -> str:
    return path if Path(path).exists() else pytest.skip(f"not installed: {package}")


def start_nginx(directory: Path, port: int) -> list:
    (directory / "nginx.conf").write_text(NGINX.format(port=port))
    return [need_program("nginx"), "-p", directory, "-e", directory / "error.log", "-c", directory / "nginx.conf"]


def put_files(directory: Path) -> None:
    for name, text in (("admin", ADMIN), ("public", PUBLIC)):
        (directory / "root" / name).mkdir(parents=True)
        (directory / "root" / name / "index.txt").write_bytes(text)
    let_others_read(directory)  # Apache gives up root for www-data


def start_apache(directory: Path, port: int) -> list:
    modules = need_file("/usr/lib/apache2/modules", "apache2-bin")
    put_files(directory)
    (directory / "apache.conf").write_text(APACHE.format(port=port, directory=directory, modules=modules))
    return [need_program("apache2"), "-X", "-d", directory, "-f", directory / "apache.conf"]


def start_lighttpd(directory: Path, port: int) -> list:
    put_files(directory)
    (directory / "lighttpd.conf").write_text(LIGHTTPD.format(port=port, directory=directory))
    return [need_program("lighttpd"), "-D", "-f", directory / "lighttpd.conf"]


def python(source: str, module: str):
    def start(directory: Path, port: int) -> list:
        pytest.importorskip(module)
        (directory / "application.py").write_text(source)
        return [sys.executable, directory / "application.py", str(port)]

    return start


def start_gunicorn(directory: Path, port: int) -> list:
    python(FLASK, "flask")(directory, port)
    pytest.importorskip("gunicorn")
    return [sys.executable, "-m", "gunicorn", "--chdir", directory, "-b", f"127.0.0.1:{port}", "application:app"]


def start_waitress(directory: Path, port: int) -> list:
    python(FLASK, "flask")(directory, port)
    pytest.importorskip("waitress")
    serve = "import sys, waitress, application; waitress.serve(application.app, listen='127.0.0.1:' + sys.argv[1])"
    return [sys.executable, "-c", serve, str(port)]


def start_express(directory: Path, port: int) -> list:
    need_file("/usr/share/nodejs/express", "node-express")
    (directory / "server.js").write_text(EXPRESS)
    return [need_program("node"), directory / "server.js", str(port)]


def java(directory: Path, source: str, path: str, *arguments: str) -> list:
    (directory / "Server.java").write_text(source)
    return [need_program("java"), "-XX:TieredStopAtLevel=1", "-cp", path, directory / "Server.java", *arguments]


def start_tomcat(directory: Path, port: int) -> list:
    need_file("/usr/share/java/tomcat10-catalina.jar", "libtomcat10-java")
    path = ":".join(f"/usr/share/java/tomcat10-{name}.jar" for name in TOMCAT_JARS)
    return java(directory, TOMCAT, path, str(port), str(directory))


def start_jetty(directory: Path, port: int) -> list:
    need_file("/usr/share/java/jetty9-servlet.jar", "libjetty9-java")
    names = ["jetty9-" + name for name in ("server", "servlet", "security", "http", "io", "util", "util-ajax")]
    path = ":".join(f"/usr/share/java/{name}.jar" for name in [*names, "servlet-api"])
    return java(directory, JETTY, path, str(port))


SERVERS = {
    "nginx": start_nginx,
    "apache": start_apache,
    "flask": python(FLASK, "flask"),
    "gunicorn": start_gunicorn,
    "waitress": start_waitress,
    "express": start_express,
    "aiohttp": python(AIOHTTP, "aiohttp"),
    "tomcat": start_tomcat,
    "jetty": start_jetty,
    "lighttpd": start_lighttpd,
}


class PathServer:
    """One of SERVERS, running."""

    def __init__(self, name: str, directory: Path):
        self.name, self.port = name, unused_port()
        command = SERVERS[name](directory, self.port)
        self.output = directory / "output.log"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                # Node.js of another origin than Debian's does not look for Debian's modules by itself.
                env=clean_environment(PYTHONPATH=str(directory), NODE_PATH="/usr/share/nodejs"),
            )
        wait_until_it_listens(self.port, self.process, self.output)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
