// The page of `sallyport dashboard`: HTML, a style sheet and a script, from the files in `page`, which the build embeds
// in the program. Browsers get them unchanged: there is no build step, and nothing comes from elsewhere.
// Tests: test_dashboard.py.

/// A file of the page.
public struct DashboardFile: Sendable {
  public let type: String
  public let bytes: [UInt8]
}

public enum DashboardPage {
  /// The file for a path; nil if there is none.
  public static func file(_ path: String) -> DashboardFile? {
    switch path {
    case "/": DashboardFile(type: "text/html; charset=utf-8", bytes: PackageResources.index_html)
    case "/app.js": DashboardFile(type: "text/javascript; charset=utf-8", bytes: PackageResources.app_js)
    case "/charts.js": DashboardFile(type: "text/javascript; charset=utf-8", bytes: PackageResources.charts_js)
    case "/style.css": DashboardFile(type: "text/css; charset=utf-8", bytes: PackageResources.style_css)
    default: nil
    }
  }

  /// The page for a browser without a session. `sentence` is ours and contains no text from a request.
  public static func doorstep(_ sentence: String) -> String {
    """
    <!DOCTYPE html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width">
    <meta name="color-scheme" content="light dark">
    <title>Sallyport: no session</title>
    <h1>Sallyport</h1>
    <p>\(sentence)</p>
    <p>To open the dashboard, run <code>sallyport dashboard</code> and follow the link that it prints.</p>
    </html>

    """
  }
}
